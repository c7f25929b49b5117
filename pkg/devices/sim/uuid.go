// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"crypto/sha1" //nolint:gosec // RFC 9562 names SHA-1 for name-based UUIDs
	"fmt"
)

// nameUUID is a UUID of version 5: the same name always gives the same UUID.
func nameUUID(format string, args ...any) string {
	sum := sha1.Sum([]byte("gpuslice-sim/" + fmt.Sprintf(format, args...))) //nolint:gosec // see the import
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
