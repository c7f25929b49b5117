// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// words are what stands after a control's name.
type words []string

func (w words) number(i int) (int, error) {
	n, err := strconv.ParseInt(w[i], 0, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number", w[i])
	}
	return int(n), nil
}

func (w words) twoNumbers() (first, second int, err error) {
	if first, err = w.number(0); err != nil {
		return 0, 0, err
	}
	second, err = w.number(1)
	return first, second, err
}

func (w words) choice(i int, valid ...string) (int, error) {
	if at := slices.Index(valid, w[i]); at >= 0 {
		return at, nil
	}
	return 0, fmt.Errorf("%q is not one of %s", w[i], strings.Join(valid, ", "))
}

// settings reads "key=value" words of the given keys.
func (w words) settings(valid ...string) (map[string]string, error) {
	all := map[string]string{}
	for _, word := range w {
		key, value, found := strings.Cut(word, "=")
		if !found || !slices.Contains(valid, key) {
			return nil, fmt.Errorf("%q is not KEY=VALUE with a key of %s", word, strings.Join(valid, ", "))
		}
		all[key] = value
	}
	return all, nil
}

// numberIn reads a number of settings; one that is missing has the default.
func numberIn(all map[string]string, key string, byDefault int) (int, error) {
	if all[key] == "" {
		return byDefault, nil
	}
	return words{all[key]}.number(0)
}
