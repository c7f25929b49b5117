// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"errors"
	"fmt"
)

type onlyDiscrete struct{}

func (onlyDiscrete) Platform() Platform       { return Platform{} }
func (onlyDiscrete) IsIntegrated(string) bool { return false }

// PlatformError says that GPUs cannot be handed out on this kind of machine.
type PlatformError struct{ Platform }

func (e PlatformError) Error() string {
	return fmt.Sprintf("not supported here: %s (found %s)", e.Name, e.Found)
}

// refuses says that the driver need not be opened: it would show GPUs that cannot be handed out.
func (p Platform) refuses() error {
	if p.Name == WSL {
		return PlatformError{p}
	}
	return nil
}

// explain tells a system on a chip, which has no library that manages GPUs, from a node whose driver is not installed yet. With
// the library such a system may have GPUs on cards, and each GPU says for itself what it is.
func (p Platform) explain(err error) error {
	if p.Name == Tegra && errors.Is(err, ErrLibraryNotFound) {
		return fmt.Errorf("%w: %w", PlatformError{p}, err)
	}
	return err
}

// integrated is why a GPU of a system on a chip cannot be handed out.
func integrated(product string) error {
	return PlatformError{Platform{Tegra, fmt.Sprintf("the integrated GPU %q", product)}}
}
