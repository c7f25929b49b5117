// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import "strings"

// models maps the product names of GPUs whose cuts are known to the short keys that notation and machine specs use.
var models = map[string]string{
	"NVIDIA A30":              "a30-24gb",
	"NVIDIA A100-SXM4-40GB":   "a100-sxm4-40gb",
	"NVIDIA A100-SXM4-80GB":   "a100-sxm4-80gb",
	"NVIDIA H100 80GB HBM3":   "h100-sxm5-80gb",
	"NVIDIA H100 PCIe":        "h100-pcie-80gb",
	"NVIDIA H100 NVL":         "h100-nvl-94gb",
	"NVIDIA GH200 480GB":      "gh200-96gb",
	"NVIDIA GH200 144G HBM3e": "gh200-144gb",
	"NVIDIA H200":             "h200-sxm5-141gb",
	"NVIDIA B200":             "b200-180gb",
	"NVIDIA GB200":            "gb200-186gb",
	"NVIDIA B300 SXM6 AC":     "b300-269gb",
	"NVIDIA GB300":            "gb300-278gb",
	"NVIDIA L40S":             "l40s",
	"NVIDIA L4":               "l4",
	"Tesla T4":                "t4",
	"NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-blackwell-se-96gb",
}

// ModelOf shortens a product name to the key that stands in the notation: known products by table,
// others by dropping the vendor and writing the rest in lower case with dashes.
func ModelOf(product string) string {
	if key, ok := models[product]; ok {
		return key
	}
	name := strings.ToLower(strings.TrimPrefix(product, "NVIDIA "))
	key := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			return r
		default:
			return '-'
		}
	}, name)
	if key = strings.Trim(key, "-"); key == "" {
		return "unknown"
	}
	return key
}
