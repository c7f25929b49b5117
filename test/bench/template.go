// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ours is the command line of our own device plugin, serving that API alone. The admin's delay is off, the rest as in production.
var ours = []string{
	"bin/gpu-plugin", "run", "--api=device-plugin", "--driver-root={driver-root}", "--dev-root={dev-root}", "--proc-root={proc-root}",
	"--sys-root={sys-root}", "--kubelet-dir={kubelet-dir}", "--cdi-dir={cdi-dir}", "--state-dir={state-dir}", "--config=file:{config}",
	"--apply-jitter=0s", "--listen=127.0.0.1:0",
}

// placeholders are the folders and the file that a plugin is told of.
var placeholders = []string{"cdi-dir", "config", "dev-root", "driver-root", "kubelet-dir", "proc-root", "state-dir", "sys-root"}

var placeholder = regexp.MustCompile(`\{[a-z-]+\}`)

// expand puts values in the places of {name}; a name that is none of values is an error.
func expand(template []string, values map[string]string) ([]string, error) {
	argv, unknown := []string{}, []string{}
	for _, word := range template {
		argv = append(argv, placeholder.ReplaceAllStringFunc(word, func(found string) string {
			value, ok := values[strings.Trim(found, "{}")]
			if !ok {
				unknown = append(unknown, found)
			}
			return value
		}))
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("unknown %s; there are {%s}", strings.Join(unknown, ", "), strings.Join(slices.Sorted(maps.Keys(values)), "}, {"))
	}
	return argv, nil
}

// checkTemplate refuses a template that no run could expand.
func checkTemplate(template []string) error {
	values := map[string]string{}
	for _, name := range placeholders {
		values[name] = name
	}
	_, err := expand(template, values)
	return err
}
