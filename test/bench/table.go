// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

// condition is what was measured with a driver that takes latency for every call; "-" where no driver has a part in it.
type condition struct {
	latency string
	figures
}

const (
	atOnce = "0s"
	ok     = "ok"
	miss   = "MISS"
	driver = "driver"
)

// verdict of a row is one of those words, or nothing without a budget.
func (r row) verdict(latency string, values []float64) string {
	switch {
	case r.budget == 0:
		return ""
	case median(values) <= r.budget:
		return ok
	case r.atOnce && latency != atOnce:
		return driver
	default:
		return miss
	}
}

// write prints every row that has values and returns how many miss their budget.
func write(out io.Writer, rows []row, measured []condition) (misses int, err error) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tlatency\tbudget\tpeer\tmedian\tlowest to highest\tunit\t")
	for _, r := range rows {
		for _, c := range measured {
			values := c.figures[r.key]
			if len(values) == 0 {
				continue
			}
			verdict := r.verdict(c.latency, values)
			if verdict == miss {
				misses++
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s to %s\t%s\t%s\n", r.title, c.latency, r.limit(), cmp.Or(r.peer, "-"),
				short(median(values)), short(slices.Min(values)), short(slices.Max(values)), r.unit, verdict)
		}
	}
	return misses, table.Flush()
}

func (r row) limit() string {
	if r.budget == 0 {
		return "-"
	}
	return "<= " + short(r.budget)
}

// short prints three digits, and all of those before the point.
func short(x float64) string {
	if x >= 100 || x == 0 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}
