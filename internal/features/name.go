// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package features

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"gpuslice/pkg/devices"
)

// sanitised is a name as GPU Feature Discovery writes it, and then as a label may: other characters are dropped, blanks become
// dashes, and it begins and ends with a letter or digit. room is how long it may be; "" = nothing is left of it.
func sanitised(name string, room int) string {
	text := strings.Map(func(r rune) rune {
		switch {
		case isAlphanumeric(r), r == '-', r == '_', r == '.':
			return r
		case r == ' ':
			return '-'
		default:
			return -1
		}
	}, strings.TrimSpace(name))
	return trimmed(text, room)
}

// trimmed cuts ASCII text to a length, at whose ends is a letter or digit.
func trimmed(text string, room int) string {
	other := func(r rune) bool { return !isAlphanumeric(r) }
	text = strings.TrimLeftFunc(text, other)
	return strings.TrimRightFunc(text[:min(len(text), max(0, room))], other)
}

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// product is the value of a product label; the suffix stays whole, however long the name is.
func product(name, suffix string) string {
	text := sanitised(name, maxValue-len(suffix))
	if text == "" {
		return ""
	}
	return text + suffix
}

// maxValue is how long a value, and the name in a key, may be.
const maxValue = validation.LabelValueMaxLength

const countSuffix = ".count"

// modelKey is a GPU's model as it stands in a label's key. Models that only differ where they are too long have one key, and are
// counted together.
func modelKey(g devices.GPU) string {
	text := sanitised(g.Model, maxValue-len(countSuffix))
	if text == "" {
		return "unknown"
	}
	return text
}

var (
	sizePart = regexp.MustCompile(`^([0-9]{1,5})gb$`)
	// formPart is where the name of a family ends in a model's key: board, connector, memory or generation.
	formPart = regexp.MustCompile(`^(?:[0-9]{1,5}gb?|sxm[0-9]*|pcie|pg[0-9]+|nvl[0-9]*|hbm[0-9a-z]*|mig|ada|blackwell|generation)$`)
	// brandParts stand before the name of a family in keys of models that no table has.
	brandParts = []string{"nvidia", "tesla", "geforce", "quadro", "grid"}
)

// family is the short key of a model's family: a100 of a100-sxm4-80gb, rtx-pro-6000 of rtx-pro-6000-blackwell-se-96gb.
func family(model string) string {
	parts := strings.Split(model, "-")
	for len(parts) > 1 && slices.Contains(brandParts, parts[0]) {
		parts = parts[1:]
	}
	if end := slices.IndexFunc(parts, formPart.MatchString); end > 0 {
		parts = parts[:end]
	}
	return strings.Join(parts, "-")
}

// nominal are the sizes in GB that GPUs are sold with.
var nominal = []uint64{2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 141, 144, 180, 186, 192, 269, 278, 288}

// memoryClass is the size that a GPU is sold with, "80g": the one in its model's key if the driver does not contradict it, or else
// the next above what the driver says.
func memoryClass(model string, mib uint64) string {
	for part := range strings.SplitSeq(model, "-") {
		m := sizePart.FindStringSubmatch(part)
		if m == nil {
			continue
		}
		gb, err := strconv.ParseUint(m[1], 10, 64)
		if sold := gb << 10; err == nil && gb > 0 && (mib == 0 || mib <= sold+sold/20 && mib >= sold-sold/5) {
			return strconv.FormatUint(gb, 10) + "g"
		}
	}
	if mib == 0 {
		return ""
	}
	gib := (mib + 1023) >> 10
	if i := slices.IndexFunc(nominal, func(n uint64) bool { return n >= gib }); i >= 0 {
		gib = nominal[i]
	}
	return strconv.FormatUint(gib, 10) + "g"
}

// architecture names a generation by its compute capability; "" = none that GPU Feature Discovery has a name for.
func architecture(major, minor int) string {
	switch {
	case major == 7 && minor >= 5:
		return "turing"
	case major == 8 && minor >= 9:
		return "ada-lovelace"
	}
	return map[int]string{
		1: "tesla", 2: "fermi", 3: "kepler", 5: "maxwell", 6: "pascal", 7: "volta", 8: "ampere", 9: "hopper", 10: "blackwell", 12: "blackwell", 13: "rubin",
	}[major]
}
