// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"gpuslice/internal/config"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

// Hardware is what the agent needs of the node's GPUs.
type Hardware interface {
	Snapshot(ctx context.Context) (devices.Node, error)
	Processes(ctx context.Context, pci string) ([]devices.Process, error)
	On(pci string) mig.Partitioner
	Forget(pci string)
}

// Kubelet tells what is allocated on this node.
type Kubelet interface {
	Read(ctx context.Context) (kubelet.Record, error)
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
}

// Options of an agent.
type Options struct {
	NodeName string
	APIs     []API
	// Poll is how often everything is read again without a cause; default 10 s.
	Poll time.Duration
	// AwaitConfig and AwaitLabels say that a source will bring them. Until it has, or the state of an earlier run tells,
	// nothing is decided: a GPU must not be offered in a way that the config is about to forbid.
	AwaitConfig bool
	AwaitLabels bool
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
	before     Before
	retry      backoff

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
}

// input is what the admin asked for last.
type input struct {
	config   config.Sharing
	hash     string
	labels   map[string]string
	problems []Problem
	// hasConfig and hasLabels say that somebody has spoken, be it an earlier run.
	hasConfig bool
	hasLabels bool
}

// New makes an agent that has read its state and offers nothing yet.
func New(hw Hardware, k Kubelet, s Store, opts Options) (*Agent, error) {
	if opts.Poll == 0 {
		opts.Poll = 10 * time.Second
	}
	a := &Agent{
		hw: hw, kubelet: k, store: s, opts: opts,
		kick: make(chan struct{}, 1), changed: make(chan struct{}), claims: map[string]state.Claim{},
		unreadable: map[string]string{}, before: Before{Policies: map[string]config.Policy{}},
	}
	if err := a.loadClaims(); err != nil {
		return nil, err
	}
	var err error
	if a.before.Resources, err = s.Resources(); err != nil {
		return nil, err
	}
	a.input.hasConfig, a.input.hasLabels = !opts.AwaitConfig, !opts.AwaitLabels
	labels, known, err := s.Labels()
	if err != nil {
		return nil, err
	}
	if known {
		a.input.labels, a.input.hasLabels = labels, true
	}
	return a, a.loadLastConfig()
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

// loadLastConfig starts with the config that was in force before, until a source says otherwise (P5).
func (a *Agent) loadLastConfig() error {
	text, err := a.store.Config()
	if err != nil || text == nil {
		return err
	}
	c, err := config.Load("last good config", text)
	if err != nil {
		a.input.problems = append(a.input.problems, Problem{Reason: ReasonConfigInvalid, Message: err.Error()})
		return nil
	}
	a.input.config, a.input.hash, a.input.hasConfig = c, hash(text), true
	return nil
}

// Waiting says what must be known before anything is decided; "" when all is.
func (a *Agent) Waiting() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.input.hasConfig:
		return "waiting for the config"
	case !a.input.hasLabels:
		return "waiting for the labels of the node"
	default:
		return ""
	}
}

// Run converges on every cause and every poll until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	ticker := time.NewTicker(a.opts.Poll)
	defer ticker.Stop()
	for {
		if waiting := a.Waiting(); waiting != "" {
			klog.FromContext(ctx).V(2).Info("Nothing is decided yet", "cause", waiting)
		} else if err := a.Converge(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Converge failed; trying again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
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

// SetLabels tells the labels of this node, by which the config chooses.
func (a *Agent) SetLabels(labels map[string]string) error {
	a.mu.Lock()
	same := a.input.hasLabels && maps.Equal(a.input.labels, labels)
	a.mu.Unlock()
	if same {
		return nil
	}
	if err := a.store.SaveLabels(labels); err != nil {
		return fmt.Errorf("keep labels: %w", err)
	}
	a.mu.Lock()
	a.input.labels, a.input.hasLabels = labels, true
	a.mu.Unlock()
	a.Kick()
	return nil
}

// SetConfig offers a new config text. One that does not load changes nothing but the problems; one that loads is kept on
// disk before it takes effect.
func (a *Agent) SetConfig(name string, text []byte) error {
	c, err := config.Load(name, text)
	if err == nil && config.IsEmpty(text) {
		err = config.Issues{{File: name, Message: "is empty; a config that manages nothing has apiVersion and kind and no nodes"}}
	}
	if err != nil {
		a.setInputProblems(ReasonConfigInvalid, err)
		return fmt.Errorf("config refused, the last good one stays: %w", err)
	}
	if err := a.store.SaveConfig(text); err != nil {
		a.setInputProblems(ReasonConfigNotKept, err)
		return fmt.Errorf("keep config: %w", err)
	}
	a.mu.Lock()
	a.input.config, a.input.hash, a.input.hasConfig = c, hash(text), true
	a.input.problems = withoutConfigProblems(a.input.problems)
	a.mu.Unlock()
	a.Kick()
	return nil
}

// ConfigUnavailable says that the source of the config cannot be read; the last good one stays.
func (a *Agent) ConfigUnavailable(err error) { a.setInputProblems(ReasonConfigMissing, err) }

func (a *Agent) setInputProblems(r Reason, err error) {
	a.mu.Lock()
	a.input.problems = append(withoutConfigProblems(a.input.problems), Problem{Reason: r, Message: err.Error()})
	a.input.hasConfig = true // that there is none is an answer too
	a.mu.Unlock()
	a.Kick()
}

func withoutConfigProblems(ps []Problem) []Problem {
	kept := []Problem{}
	for _, p := range ps {
		if p.Reason != ReasonConfigInvalid && p.Reason != ReasonConfigMissing && p.Reason != ReasonConfigNotKept {
			kept = append(kept, p)
		}
	}
	return kept
}
