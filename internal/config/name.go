// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"gpuslice/internal/config/strict"
)

// MaxSlices bounds slice counts, starts and instance counts; no GPU has more than 14 instances or 8 slices.
const MaxSlices = 64

const (
	profileText = `([1-9][0-9]*)g\.[0-9]{1,6}gb([+-][a-z]+(\.[a-z]+)?)?`
	// defaultDomain is put before a name that has no domain.
	defaultDomain = "nvidia.com/"
	// quotaPrefix is what Kubernetes puts before a resource name in a quota.
	quotaPrefix = "requests."
	// sharedSuffix is what rename: true puts behind a resource name.
	sharedSuffix = ".shared"
)

var (
	profileName = regexp.MustCompile(`^` + profileText + `$`)
	slotName    = regexp.MustCompile(`^` + profileText + `@([0-9]+)$`)
	sliceCount  = regexp.MustCompile(`^([1-9][0-9]*)g$`)
)

func profileFault(text string) string {
	m := profileName.FindStringSubmatch(text)
	if m == nil {
		return fmt.Sprintf("%q is not a profile name such as 3g.40gb or 1g.10gb+me", strict.Clip(text))
	}
	return sliceFault(text, m[1])
}

func slotFault(text string) string {
	m := slotName.FindStringSubmatch(text)
	if m == nil {
		return fmt.Sprintf("%q is not PROFILE@START such as 3g.40gb@4", strict.Clip(text))
	}
	if start, err := strconv.Atoi(m[4]); err != nil || start >= MaxSlices {
		return fmt.Sprintf("%q starts at %s, want 0 to %d", strict.Clip(text), strict.Clip(m[4]), MaxSlices-1)
	}
	return sliceFault(text, m[1])
}

// sizeFault is for a slice count or a profile; example says what else would do.
func sizeFault(text, example string) string {
	for _, form := range []*regexp.Regexp{sliceCount, profileName} {
		if m := form.FindStringSubmatch(text); m != nil {
			return sliceFault(text, m[1])
		}
	}
	return fmt.Sprintf("%q is not %s", strict.Clip(text), example)
}

func sliceFault(text, count string) string {
	if n, err := strconv.Atoi(count); err != nil || n > MaxSlices {
		return fmt.Sprintf("%q has %s slices, want 1 to %d", strict.Clip(text), strict.Clip(count), MaxSlices)
	}
	return ""
}

// ResourceFault says why Kubernetes would not take a name for an extended resource, or "". A kubelet refuses such a name
// only when the plugin registers, and then for every GPU that has it.
func ResourceFault(name string) string {
	switch domain, _, hasDomain := strings.Cut(name, "/"); {
	case !hasDomain:
		return "it has no domain"
	case strings.HasSuffix(domain, "kubernetes.io"):
		return "kubernetes.io is reserved"
	case strings.HasPrefix(name, quotaPrefix):
		return quotaPrefix + " is the prefix of quotas"
	}
	if faults := validation.IsQualifiedName(name); len(faults) > 0 {
		return faults[0]
	}
	if len(validation.IsQualifiedName(quotaPrefix+name)) > 0 {
		return "the domain is too long for a quota, which puts " + quotaPrefix + " before it"
	}
	return ""
}
