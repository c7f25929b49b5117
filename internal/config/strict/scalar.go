// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package strict

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// decimal is how a number is written; YAML's other ways (010 is 8, 1_0 is 10, 1.9 is cut off) surprise.
var decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)

// Reader is a type that decodes itself and says beforehand, on its zero value, why a node cannot be read as one, or "".
type Reader interface{ Fault(n *yaml.Node) string }

// fault says why a node cannot be read as a t, or "".
func fault(n *yaml.Node, t reflect.Type) string {
	switch {
	case n.Kind == yaml.AliasNode:
		return "YAML aliases are not supported; write the value out"
	case n.Style&yaml.TaggedStyle != 0:
		return fmt.Sprintf("YAML tags are not supported; leave %s out", Clip(n.Tag))
	case isNull(n):
		return "" // as if the field were absent
	}
	if own, ok := reflect.TypeAssert[Reader](reflect.Zero(t)); ok {
		return own.Fault(n)
	}
	return kindFault(n, t.Kind())
}

func kindFault(n *yaml.Node, kind reflect.Kind) string {
	switch kind {
	case reflect.Struct, reflect.Map:
		return Unless(n.Kind == yaml.MappingNode, n, "a mapping")
	case reflect.Slice:
		return Unless(n.Kind == yaml.SequenceNode, n, "a list")
	case reflect.Int:
		return numberFault(n)
	case reflect.Bool:
		return switchFault(n)
	default:
		return Unless(n.Kind == yaml.ScalarNode, n, "text")
	}
}

func numberFault(n *yaml.Node) string {
	isText := n.ShortTag() == "!!str"
	switch isDecimal := decimal.MatchString(n.Value); {
	case n.Kind != yaml.ScalarNode || isText && !isDecimal:
		return isNot(n, "a number")
	case !isDecimal:
		return isNot(n, "a whole decimal number")
	case isText:
		return fmt.Sprintf("%q is text; write %s without quotes", Clip(n.Value), Clip(n.Value))
	}
	if _, err := strconv.Atoi(n.Value); err != nil {
		return Clip(n.Value) + " is too large a number"
	}
	return ""
}

func switchFault(n *yaml.Node) string {
	if n.ShortTag() == "!!str" && (n.Value == "true" || n.Value == "false") {
		return fmt.Sprintf("%q is text; write %s without quotes", n.Value, n.Value)
	}
	return Unless(n.ShortTag() == "!!bool", n, "true or false")
}

// Unless says that a node is not what is wanted, unless it is.
func Unless(ok bool, n *yaml.Node, want string) string {
	if ok {
		return ""
	}
	return isNot(n, want)
}

// isNot says that a node is not what is wanted.
func isNot(n *yaml.Node, want string) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping is not " + want
	case n.Kind == yaml.SequenceNode:
		return "a list is not " + want
	case n.ShortTag() == "!!str":
		return fmt.Sprintf("%q is not %s", Clip(n.Value), want)
	default:
		return fmt.Sprintf("%s is not %s", Clip(n.Value), want)
	}
}

// keyFault says why a node cannot be a key, or "".
func keyFault(n *yaml.Node) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		return "a key is not plain text"
	case n.Style&yaml.TaggedStyle != 0:
		return fmt.Sprintf("YAML tags are not supported; leave %s out", Clip(n.Tag))
	case n.ShortTag() == "!!merge":
		return "YAML merge keys (<<) are not supported; write the entries out"
	case isNull(n) || n.Value == "":
		return "a key is empty"
	default:
		return ""
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// isEmpty says that a node is there but holds nothing.
func isEmpty(n *yaml.Node) bool {
	return isNull(n) || n.Kind == yaml.ScalarNode && n.Value == "" || n.Kind != yaml.AliasNode && n.Kind != yaml.ScalarNode && len(n.Content) == 0
}
