// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package nvidia reads the two formats that NVIDIA's tools are configured with: version v1 of the device plugin's config, and
// of mig-parted's. Both become what a SharingConfig says too, a policy for each GPU at run time and a text by Convert.
//
// Every key of both formats is honoured, has no effect here, or is refused; what is not honoured is said with its reason.
// Whatever cannot be meant changes nothing: unknown keys, which NVIDIA's device plugin leaves out without a word, are mistakes.
package nvidia
