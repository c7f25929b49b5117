// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"gpuslice/internal/config"
	"gpuslice/internal/config/nvidia"
)

// Import is one of NVIDIA's formats; its text is also the name under which the last good config of it is kept.
type Import string

// The formats.
const (
	DevicePluginConfig Import = "device-plugin-config"
	MIGPartedConfig    Import = "mig-parted-config"
)

// keptName is where the last known name of a config of mig-parted's is kept.
const keptName = "mig-config-name"

var imports = []Import{DevicePluginConfig, MIGPartedConfig}

// Config is everything that is asked of a node: the SharingConfig, and what the configs in NVIDIA's formats that it names say
// to this node.
type Config struct {
	config.Sharing
	DevicePlugin *nvidia.DevicePlugin // nil = none
	MIGParted    *nvidia.MIGParted    // nil = none
	MIGConfig    MIGConfig
	Problems     []Problem // with NVIDIA's configs
}

// ImportNames returns which ConfigMaps the SharingConfig names: "" = none.
func ImportNames(c config.Sharing) map[Import]string {
	if c.NVIDIA == nil {
		return map[Import]string{}
	}
	return map[Import]string{DevicePluginConfig: c.NVIDIA.DevicePluginConfig, MIGPartedConfig: c.NVIDIA.MIGPartedConfig}
}

// isBuiltIn says that no ConfigMap is meant.
func (i Import) isBuiltIn(name string) bool { return i == MIGPartedConfig && name == config.BuiltIn }

// imported is what a source said of a ConfigMap last.
type imported struct {
	name    string // of the ConfigMap
	source  string // "configmap ns/name"
	data    map[string]string
	missing error
}

// adoption is a config of NVIDIA's that is in force.
type adoption struct {
	text         []byte
	warnings     config.Issues
	devicePlugin *nvidia.DevicePlugin
	migParted    *nvidia.MIGParted
}

func (i Import) load(source string, text []byte) (adoption, error) {
	a := adoption{text: text}
	if i == MIGPartedConfig {
		c, err := nvidia.LoadMIGParted(source, text)
		a.migParted = &c
		return a, err
	}
	c, warnings, err := nvidia.LoadDevicePlugin(source, text)
	a.devicePlugin, a.warnings = &c, warnings
	return a, err
}

// pick finds the text that is for this node; nil when the ConfigMap has none for it.
func (i Import) pick(in imported, labels map[string]string) (source string, text []byte, err error) {
	if in.missing != nil {
		return "", nil, in.missing
	}
	if len(in.data) == 0 {
		return "", nil, fmt.Errorf("%s is empty; to share nothing, keep a config that says so, such as version: v1", in.source)
	}
	key := "config.yaml"
	if i == DevicePluginConfig {
		if key = devicePluginKey(in.data, labels[nvidia.DevicePluginLabel]); key == "" {
			return "", nil, nil
		}
	}
	if found, ok := in.data[key]; ok && config.IsEmpty([]byte(found)) {
		return "", nil, fmt.Errorf("%s %s is empty; to share nothing, keep a config that says so, such as version: v1", in.source, key)
	} else if ok {
		return in.source + " " + key, []byte(found), nil
	}
	why := ""
	if i == DevicePluginConfig {
		why = ", which label " + nvidia.DevicePluginLabel + " of this node names"
	}
	keys := cmp.Or(strings.Join(slices.Sorted(maps.Keys(in.data)), ", "), "none")
	return "", nil, fmt.Errorf("%s has no key %s%s; it has %s", in.source, key, why, keys)
}

// devicePluginKey is the key for a node without label, too: the one called default, or the only one.
func devicePluginKey(data map[string]string, label string) string {
	if label != "" {
		return label
	}
	if _, ok := data["default"]; ok || len(data) != 1 {
		return map[bool]string{true: "default"}[ok]
	}
	return slices.Collect(maps.Keys(data))[0]
}

// ImportNames returns the ConfigMaps to be followed and a channel that closes when that may have changed.
func (a *Agent) ImportNames() (map[Import]string, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := ImportNames(a.input.config.Sharing)
	maps.DeleteFunc(names, func(i Import, name string) bool { return name == "" || i.isBuiltIn(name) })
	return names, a.renamed
}

// SetImport tells what a ConfigMap holds; source is what messages call it.
func (a *Agent) SetImport(i Import, name, source string, data map[string]string) {
	a.hear(i, imported{name: name, source: source, data: maps.Clone(data)})
}

// ImportUnavailable says that a ConfigMap cannot be read; the last good config of it stays.
func (a *Agent) ImportUnavailable(i Import, name string, err error) {
	a.hear(i, imported{name: name, missing: err})
}

func (a *Agent) hear(i Import, in imported) {
	a.mu.Lock()
	all := maps.Clone(a.input.imports) // looks in progress keep theirs
	if all == nil {
		all = map[Import]imported{}
	}
	all[i] = in
	a.input.imports = all
	a.mu.Unlock()
	a.Kick()
}

// awaited names the ConfigMaps of which nothing is known yet, neither from a source nor from an earlier run.
func (in input) awaited() []string {
	names := []string{}
	for i, name := range ImportNames(in.config.Sharing) {
		if name != "" && !i.isBuiltIn(name) && !in.kept[i] && in.imports[i].name != name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// loadImports starts with what was in force before, until a source says otherwise (P5).
func (a *Agent) loadImports() error {
	a.adopted, a.input.kept = map[Import]adoption{}, map[Import]bool{}
	for _, i := range imports {
		text, err := a.store.Import(string(i))
		if err != nil {
			return err
		}
		if text == nil {
			continue
		}
		if kept, err := i.load("last good "+string(i), text); err == nil {
			a.adopted[i], a.input.kept[i] = kept, true
		}
	}
	name, err := a.store.Import(keptName)
	a.lastMIG = string(name)
	return err
}

// adopt puts into the input what NVIDIA's configs say to this node. It is called by whoever holds converging.
func (a *Agent) adopt(ctx context.Context, o *observation) {
	c := &o.input.config
	c.Problems = nil
	names, faults := ImportNames(c.Sharing), map[Import]error{}
	for _, i := range imports {
		if faults[i] = a.adoptOne(ctx, i, names[i], o.input); faults[i] != nil {
			c.Problems = append(c.Problems, problemOf(faults[i]))
		}
		for _, w := range a.adopted[i].warnings {
			c.Problems = append(c.Problems, Problem{Reason: ReasonImportIgnored, Message: w.Error()})
		}
	}
	c.DevicePlugin, c.MIGParted = a.adopted[DevicePluginConfig].devicePlugin, a.adopted[MIGPartedConfig].migParted
	c.choose(o.input.labels, a.lastMIG, o.node)
	if fault := faults[MIGPartedConfig]; fault != nil && c.MIGConfig.Asked != "" {
		c.MIGConfig.Fault = fault.Error()
	}
	if err := a.keepName(c.MIGConfig); err != nil {
		c.Problems = append(c.Problems, Problem{Reason: ReasonConfigNotKept, Message: err.Error()})
	}
}

// problemOf says whether a config of NVIDIA's is wrong in itself, not there, or could not be kept.
func problemOf(err error) Problem {
	p := Problem{Reason: ReasonImportMissing, Message: err.Error()}
	if _, mistaken := errors.AsType[config.Issues](err); mistaken {
		p.Reason = ReasonImportInvalid
	} else if errors.Is(err, errNotKept) {
		p.Reason = ReasonConfigNotKept
	}
	return p
}

var errNotKept = errors.New("not kept")

// adoptOne brings one config up to date; when it cannot, the last good one stays and the error says why.
func (a *Agent) adoptOne(ctx context.Context, i Import, name string, in input) error {
	switch heard := in.imports[i]; {
	case name == "":
		return a.drop(i, adoption{})
	case i.isBuiltIn(name):
		return a.drop(i, adoption{migParted: &nvidia.MIGParted{}})
	case heard.name != name:
		return nil // not heard yet: what was in force stays
	default:
		source, text, err := i.pick(heard, in.labels)
		if err == nil && text == nil {
			return a.drop(i, adoption{})
		}
		if err != nil || bytes.Equal(text, a.adopted[i].text) {
			return err
		}
		return a.take(ctx, i, source, text)
	}
}

// take puts a text into force that is another than before, on disk first.
func (a *Agent) take(ctx context.Context, i Import, source string, text []byte) error {
	loaded, err := i.load(source, text)
	if err != nil {
		return err
	}
	if err := a.store.SaveImport(string(i), text); err != nil {
		return fmt.Errorf("%s: %w: %w", source, errNotKept, err)
	}
	a.adopted[i] = loaded
	klog.FromContext(ctx).Info("Config accepted", "source", source)
	return nil
}

// drop forgets what is kept of a config that nobody names any more, or that has nothing to say.
func (a *Agent) drop(i Import, instead adoption) error {
	if a.adopted[i].text != nil {
		if err := a.store.SaveImport(string(i), nil); err != nil {
			return fmt.Errorf("%s: %w: %w", i, errNotKept, err)
		}
		a.forgetKept(i)
	}
	a.adopted[i] = instead
	return nil
}

// forgetKept makes Waiting wait for a source again, should the config be named anew.
func (a *Agent) forgetKept(i Import) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := maps.Clone(a.input.kept)
	delete(kept, i)
	a.input.kept = kept
}

// keepName remembers the config that is in force, for when the label names one that nobody knows.
func (a *Agent) keepName(m MIGConfig) error {
	if m.Name == a.lastMIG {
		return nil
	}
	if err := a.store.SaveImport(keptName, []byte(m.Name)); err != nil {
		return err
	}
	a.lastMIG = m.Name
	return nil
}
