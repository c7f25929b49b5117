// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cordon

import (
	"errors"
	"strconv"
	"strings"
)

// Amount is a number of things, or a part of all of them.
type Amount struct {
	n       int
	percent bool
}

var errAmount = errors.New("it is a number from 1 on, such as 2, or a percentage from 1% to 100%, such as 50%")

// maxAmount is beyond every node and cluster, and far from where products overflow.
const maxAmount = 1_000_000

// ParseAmount reads "2" or "50%".
func ParseAmount(text string) (Amount, error) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > maxAmount || percent && n > 100 || digits != strconv.Itoa(n) {
		return Amount{}, errAmount
	}
	return Amount{n: n, percent: percent}, nil
}

func (a Amount) String() string {
	if a.percent {
		return strconv.Itoa(a.n) + "%"
	}
	return strconv.Itoa(a.n)
}

// reachedBy says whether some of all are at least so many.
func (a Amount) reachedBy(some, all int) bool {
	if a.percent {
		return some*100 >= a.n*all
	}
	return some >= a.n
}

// atMost is how many of all that allows: a percentage is rounded down, and at least 1.
func (a Amount) atMost(all int) int {
	if a.percent {
		return max(1, a.n*all/100)
	}
	return a.n
}
