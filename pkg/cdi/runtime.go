// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cdi

import (
	"fmt"
	"strconv"
	"strings"
)

// Support is whether a container runtime injects devices by CDI.
type Support int

// What the version of a runtime tells.
const (
	Unknown     Support = iota // it depends on its config, or nobody here knows it
	Supported                  // it does, unless somebody turned it off
	Unsupported                // it cannot
)

// withoutCDI is the way out for runtimes that cannot.
const withoutCDI = "use --device-list-strategy=envvar with NVIDIA's container runtime"

// SupportOf tells from the runtime's version as a Node has it, "containerd://2.4.2", and from the directory with our specs. What is
// to be done is "" when nothing is.
func SupportOf(version, dir string) (s Support, todo string) {
	name, number, _ := strings.Cut(version, "://")
	major, minor, ok := numbersOf(number)
	oldest, known := firstWithCDI[name]
	switch {
	case name == "docker":
		return Unsupported, fmt.Sprintf("%s does not inject devices by CDI for the kubelet; %s", version, withoutCDI)
	case !known || !ok:
		return Unknown, fmt.Sprintf("whether the runtime %q injects devices by CDI is not known here", version)
	case major > oldest.major || major == oldest.major && minor >= oldest.minor:
		return Supported, ""
	case name == "containerd" && major == 1 && minor == 7:
		return Unknown, fmt.Sprintf(`%s injects devices by CDI only if its config.toml says so; under [plugins."io.containerd.grpc.v1.cri"] set `+
			`enable_cdi = true and cdi_spec_dirs = ["/etc/cdi", %q], then restart containerd; or %s`, version, dir, withoutCDI)
	}
	return Unsupported, fmt.Sprintf("%s is older than CDI; containerd 2, or CRI-O 1.28, has it; or %s", version, withoutCDI)
}

// firstWithCDI are the versions from which on a runtime injects by CDI without being told to.
var firstWithCDI = map[string]struct{ major, minor int }{"containerd": {2, 0}, "cri-o": {1, 28}}

// numbersOf reads the first two numbers of a version: "v2.0.0-rc.1+unknown" is 2 and 0.
func numbersOf(version string) (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil || major < 0 {
		return 0, 0, false
	}
	end := strings.IndexFunc(parts[1], func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(parts[1])
	}
	minor, err = strconv.Atoi(parts[1][:end])
	return major, minor, err == nil
}
