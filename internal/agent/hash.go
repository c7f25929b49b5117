// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"crypto/sha256"
	"encoding/hex"
)

// hash names a config text: the first 8 bytes of its SHA-256, enough to compare by eye.
func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
