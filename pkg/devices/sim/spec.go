// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// maxGPUs bounds what a spec may ask for.
const maxGPUs = 1024

// Parse makes the machine that a spec describes: "8xh100-sxm5-80gb", "2xa100-sxm4-40gb,1xl40s", or "@machine.yaml" for the
// machine file of that name.
func Parse(spec string) (*Machine, error) {
	if path, ok := strings.CutPrefix(spec, "@"); ok {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read machine file: %w", err)
		}
		m, err := ParseYAML(data)
		if err != nil {
			return nil, fmt.Errorf("machine file %s: %w", path, err)
		}
		return m, nil
	}
	var file machineFile
	for part := range strings.SplitSeq(spec, ",") {
		g, err := parsePart(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("machine spec %q: %w", spec, err)
		}
		file.GPUs = append(file.GPUs, g)
	}
	m, err := file.build()
	if err != nil {
		return nil, fmt.Errorf("machine spec %q: %w", spec, err)
	}
	return m, nil
}

var partPattern = regexp.MustCompile(`^([0-9]+)x(.+)$`)

// parsePart reads "8xh100-sxm5-80gb".
func parsePart(part string) (gpuFile, error) {
	match := partPattern.FindStringSubmatch(part)
	if match == nil {
		return gpuFile{}, fmt.Errorf("%q is not of the form <count>x<model>, such as 8xh100-sxm5-80gb", part)
	}
	count, err := strconv.Atoi(match[1])
	if err != nil || count < 1 {
		return gpuFile{}, fmt.Errorf("%q asks for %s GPUs; valid counts: 1 to %d", part, match[1], maxGPUs)
	}
	return gpuFile{Model: match[2], Count: count}, nil
}
