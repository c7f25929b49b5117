// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpuslice/test/cluster/node"
	"gpuslice/test/stage"
)

// demo is a story that is being told.
type demo struct {
	*stage.Stage
	story  story
	before expected
	after  expected
	// what was noted before the edit
	machineBefore string
	busySlice     string
}

// check is one thing that is shown: what is expected from the config, and what the API server, the container or the driver
// says at that moment.
type check struct {
	title string
	act   func(context.Context, *demo) error // what the people of the story do before it
	spoil func(context.Context, *demo) error // sabotage of exactly this check's subject
	look  func(context.Context, *demo) (want, got string, err error)
}

func (d *demo) tell(ctx context.Context, sabotage int) error {
	for i, c := range checks {
		n := i + 1
		fmt.Printf("%2d. %s\n", n, c.title)
		if c.act != nil {
			if err := c.act(ctx, d); err != nil {
				return fmt.Errorf("check %d (%s): %w", n, c.title, err)
			}
		}
		if n == sabotage {
			fmt.Println("    sabotage!")
			if err := c.spoil(ctx, d); err != nil {
				return fmt.Errorf("sabotage of check %d: %w", n, err)
			}
		}
		if err := d.show(ctx, c, n == sabotage); err != nil {
			return fmt.Errorf("check %d (%s): %w", n, c.title, err)
		}
	}
	return nil
}

// show waits until what is got is what is expected, and prints both. What comes out of a spoilt subject takes its time too:
// there it waits for the difference, and a demo that never sees one has passed.
func (d *demo) show(ctx context.Context, c check, spoilt bool) error {
	var want, got string
	err := node.Until(ctx, time.Minute, "expected value", func(ctx context.Context) error {
		var err error
		if want, got, err = c.look(ctx, d); err != nil && !spoilt {
			return err
		}
		if err != nil { // a spoilt subject need not even answer
			got = err.Error()
		}
		if (want == got) == spoilt {
			return fmt.Errorf("want == got is %v", want == got)
		}
		return nil
	})
	if spoilt {
		err = differs(want, got, err)
	}
	fmt.Printf("    expected %s\n    got      %s\n", want, got)
	return err
}

// differs turns the outcome of waiting for a difference into the check's: seen is a failure, never seen is not.
func differs(want, got string, waiting error) error {
	switch {
	case waiting == nil:
		return errors.New("differs")
	case want == got && want != "":
		return nil
	default:
		return waiting
	}
}
