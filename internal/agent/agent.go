// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"gpuslice/internal/beat"
	"gpuslice/internal/config"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
	"gpuslice/pkg/timeslice"
	"gpuslice/pkg/topology"
)

// Hardware is what the agent needs of the node's GPUs.
type Hardware interface {
	Snapshot(ctx context.Context) (devices.Node, error)
	// Glance leaves out how GPUs that are whole can be cut.
	Glance(ctx context.Context) (devices.Node, error)
	ReadLinks(ctx context.Context, gpus []devices.GPU) topology.Matrix
	Processes(ctx context.Context, pci string) ([]devices.Process, error)
	On(pci string) mig.Partitioner
	Forget(pci string)
	// SetReleased and Clients are about who else works with a GPU; the others are what a change of the MIG mode needs.
	SetReleased(ctx context.Context, why map[string]string) error
	Clients(ctx context.Context, pci string) ([]string, error)
	Reset(ctx context.Context, pci string) error
	Persistence(ctx context.Context, pci string) (bool, error)
	SetPersistence(ctx context.Context, pci string, on bool) error
	TimeSlice(ctx context.Context, pci string) (timeslice.Interval, error)
	SetTimeSlice(ctx context.Context, pci string, i timeslice.Interval) error
	// What a cgroup may take of a GPU's memory, in bytes.
	ReservedMemory(ctx context.Context, pci string) (uint64, error)
	MemoryLimit(ctx context.Context, pci, cgroup string) (uint64, error)
	SetMemoryLimit(ctx context.Context, pci, cgroup string, hard uint64) error
}

// Kubelet tells what is allocated on this node.
type Kubelet interface {
	Read(ctx context.Context) (kubelet.Record, error)
	// Held lists the ids that a container holds.
	Held(podUID, container string) ([]string, error)
}

// Store keeps intents and the last good config.
type Store interface {
	SaveClaim(state.Claim) error
	DeleteClaim(uid string) error
	Claims() (claims []state.Claim, bad []state.UnreadableError, err error)
	SaveConfig(text []byte) error
	Config() ([]byte, error)
	SaveLabels(labels map[string]string) error
	Labels() (labels map[string]string, known bool, err error)
	SaveResources(names []string) error
	Resources() ([]string, error)
	SaveImport(name string, text []byte) error
	Import(name string) ([]byte, error)
	SaveGPU(state.GPU) error
	GPUs() ([]state.GPU, error)
	SavePolicies(text []byte) error
	Policies() ([]byte, error)
	SaveAnnotations(annotations map[string]string) error
	Annotations() (annotations map[string]string, known bool, err error)
	SaveLimit(state.Limit) error
	DeleteLimit(state.Limit) error
	Limits() ([]state.Limit, error)
	BootID() string
	SaveHealth(state.Health) error
	Healths() (all []state.Health, bad []state.UnreadableError, err error)
}

// Cgroups finds the cgroups of processes on this node.
type Cgroups interface {
	// Unified says why there is no hierarchy of version 2 here; nil: there is.
	Unified() error
	// Of is the folder of the cgroup that a process is in.
	Of(pid int) (string, error)
	Exists(folder string) bool
	// IsRoot says that a folder is that of the hierarchy as a whole.
	IsRoot(folder string) bool
}

// Options of an agent.
type Options struct {
	NodeName string
	APIs     []API
	// Poll is how often everything is read again without a cause; default 10 s.
	Poll time.Duration
	// Peek is how often a sick GPU that nobody uses is looked at, for which others cannot reset it for a moment; default 30 s.
	Peek time.Duration
	// AwaitConfig and AwaitLabels say that a source will bring them. Until it has, or the state of an earlier run tells,
	// nothing is decided: a GPU must not be offered in a way that the config is about to forbid.
	AwaitConfig bool
	AwaitLabels bool
	// Cgroups is where containers are bounded; nil means that they cannot be found here.
	Cgroups Cgroups
	// NoHook is why this agent is not asked before a container starts; "" means that it is.
	NoHook string
	// CDI is how containers get devices of the device plugin; nil means in another way.
	CDI *CDI
}

// Agent owns the GPUs of one node.
type Agent struct {
	hw      Hardware
	kubelet Kubelet
	store   Store
	opts    Options
	kick    chan struct{} // capacity 1: a cause to converge

	converging sync.Mutex // one writer of hardware
	lastRecord kubelet.Record
	lastNode   devices.Node
	linked     linked
	before     Before
	gpus       map[string]state.GPU // by UUID
	intervals  map[string]tried     // by UUID
	limitable  map[string]Memory    // by UUID: the last answer of a driver
	adopted    map[Import]adoption
	lastMIG    string // the last known config of mig-parted's
	retry      backoff
	proof      proof
	ledger     ledger
	// keptPolicies is the policies that are on disk.
	keptPolicies []byte

	mu        sync.Mutex // guards what follows; held for moments only, never over I/O on hardware
	view      *View      // nil until the layout was verified once
	changed   chan struct{}
	allocated []answer // our Allocate answers that the kubelet's records have not caught up with
	answers   uint64   // counts Allocate answers and Reserves, so that a publication can tell it is out of date
	claims    map[string]state.Claim
	// unreadable says, by UID, why the intent of a claim could not be read: until the kubelet asks for that claim again or lets
	// it go, nobody knows what it holds.
	unreadable map[string]string
	input      input
	renamed    chan struct{} // closed and replaced when the config is

	limits limits
}

// New makes an agent that has read its state and offers nothing yet.
func New(hw Hardware, k Kubelet, s Store, opts Options) (*Agent, error) {
	if opts.Poll == 0 {
		opts.Poll = 10 * time.Second
	}
	if opts.Peek == 0 {
		opts.Peek = 30 * time.Second
	}
	a := &Agent{
		hw: hw, kubelet: k, store: s, opts: opts,
		kick: make(chan struct{}, 1), changed: make(chan struct{}), renamed: make(chan struct{}), claims: map[string]state.Claim{},
		unreadable: map[string]string{}, before: Before{Policies: map[string]config.Policy{}}, gpus: map[string]state.GPU{},
		intervals: map[string]tried{}, limitable: map[string]Memory{}, limits: limits{store: s, all: map[limitKey]state.Limit{}},
	}
	if err := a.loadClaims(); err != nil {
		return nil, err
	}
	var err error
	if a.before.Resources, err = s.Resources(); err != nil {
		return nil, err
	}
	if err := errors.Join(a.loadGPUs(), a.loadHealth(), a.limits.load()); err != nil {
		return nil, err
	}
	a.input.hasConfig, a.input.hasLabels = !opts.AwaitConfig, !opts.AwaitLabels
	return a, errors.Join(a.loadNode(), a.loadPolicies(), a.loadLastConfig(), a.loadImports())
}

// loadNode reads what the Node said last.
func (a *Agent) loadNode() error {
	labels, known, err := a.store.Labels()
	if err != nil {
		return err
	}
	if known {
		a.input.labels, a.input.hasLabels = labels, true
	}
	a.input.annotations, _, err = a.store.Annotations()
	return err
}

// loadPolicies reads what was in force; what is not readable any more is found out again from the config.
func (a *Agent) loadPolicies() error {
	text, err := a.store.Policies()
	if err != nil || text == nil {
		return err
	}
	kept := map[string]config.Policy{}
	if json.Unmarshal(text, &kept) == nil {
		a.before.Policies, a.keptPolicies = kept, text
	}
	return nil
}

// loadClaims reads the intents; one that cannot be read is remembered as such.
func (a *Agent) loadClaims() error {
	claims, bad, err := a.store.Claims()
	if err != nil {
		return err
	}
	for _, c := range claims {
		a.claims[c.UID] = c
	}
	for _, b := range bad {
		a.unreadable[b.UID] = b.Error()
	}
	return nil
}

// Run converges on every cause and every poll until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	converge := a.begin
	for {
		select {
		case <-a.kick: // this pass serves the causes until now
		default:
		}
		if waiting := a.Waiting(); waiting != "" {
			klog.FromContext(ctx).V(2).Info("Nothing is decided yet", "cause", waiting)
		} else if err := converge(ctx); err == nil {
			converge = a.Converge
		} else if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Converge failed; trying again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-beat.After(a.opts.Poll):
		case <-a.kick:
		case <-a.retry.wait():
		}
	}
}

// Kick makes Run converge soon.
func (a *Agent) Kick() {
	select {
	case a.kick <- struct{}{}:
	default: // a cause is waiting already
	}
}

// View returns what is offered now and a channel that closes when that changes. The view is nil until the layout of the
// node was verified once.
func (a *Agent) View() (*View, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.view, a.changed
}

// ErrStale is returned when something was given out while a view was being made.
var errStale = errors.New("something was given out meanwhile")

// publish replaces the view unless something was given out since the usage it was made from was read.
func (a *Agent) publish(v View, answers uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answers != answers {
		return errStale
	}
	if a.view != nil {
		v.Generation = a.view.Generation + 1
	}
	a.view = &v
	close(a.changed)
	a.changed = make(chan struct{})
	return nil
}
