// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

import (
	"context"
	"errors"
	"fmt"
)

// ErrNeedsReset is wrapped by SetMode when the mode was accepted and takes effect with a reset only.
var ErrNeedsReset = errors.New("the mode takes effect with a reset")

// StepError says at which step a plan failed.
type StepError struct {
	GPU  string
	Step Step
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("%s on %s: %v", e.Step, e.GPU, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// Partitioner performs single steps on the one GPU it is bound to.
type Partitioner interface {
	SetMode(ctx context.Context, on bool) error
	// Reset makes a mode that was set take effect; where it has by itself, nothing is reset.
	Reset(ctx context.Context) error
	Create(ctx context.Context, s Slot) error
	Destroy(ctx context.Context, i Instance) error
}

// Apply takes the steps in order and stops at the first that fails; what was reached must be read back from the GPU.
func Apply(ctx context.Context, hw Partitioner, p Plan) error {
	for i, step := range p.Steps {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: stopped before %s: %w", p.GPU, step, err)
		}
		err := apply(ctx, hw, step)
		if errors.Is(err, ErrNeedsReset) && i+1 < len(p.Steps) && p.Steps[i+1] == (Reset{}) {
			continue
		}
		if err != nil {
			return &StepError{GPU: p.GPU, Step: step, Err: err}
		}
	}
	return nil
}

func apply(ctx context.Context, hw Partitioner, step Step) error {
	switch s := step.(type) {
	case SetMode:
		return hw.SetMode(ctx, s.On)
	case Reset:
		return hw.Reset(ctx)
	case Destroy:
		return hw.Destroy(ctx, s.Instance)
	case Create:
		return hw.Create(ctx, s.Slot)
	default:
		return fmt.Errorf("unknown step %T", step)
	}
}
