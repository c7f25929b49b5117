// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gpuslice/test/kubelet"
)

// patience is how long a plugin may take for anything; a budget is missed long before.
const patience = 60 * time.Second

// session is one life of the plugin, under a kubelet and in folders of its own.
type session struct {
	*kubelet.Kubelet
	*process
	dir    string
	config string

	mu       sync.Mutex
	breaches []error
}

// offers is how many healthy devices each resource has; one that is not there has none.
type offers map[string]int

// begin starts a plugin with a config on a node.
func (n *node) begin(template []string, config []byte) (*session, error) {
	dir, err := os.MkdirTemp(n.dir, "session")
	if err != nil {
		return nil, err
	}
	kubeletDir, err := os.MkdirTemp(n.short, "k")
	if err != nil {
		return nil, err
	}
	s := &session{dir: dir, config: filepath.Join(dir, "config.yaml")}
	s.Kubelet = kubelet.New(kubeletDir, s.breach)
	argv, err := expand(template, map[string]string{
		"driver-root": n.paths.Root, "dev-root": n.paths.Dev, "proc-root": n.paths.Proc, "sys-root": n.paths.Sys,
		"kubelet-dir": kubeletDir, "cdi-dir": filepath.Join(dir, "cdi"), "state-dir": filepath.Join(dir, "state"), "config": s.config,
	})
	if err == nil {
		err = errors.Join(s.configure(config), s.Boot())
	}
	if err == nil {
		s.process, err = launch(argv, filepath.Join(dir, "log"))
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *session) breach(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaches = append(s.breaches, err)
}

// configure replaces the config as an editor does.
func (s *session) configure(text []byte) error {
	return errors.Join(os.WriteFile(s.config+".new", text, 0o600), os.Rename(s.config+".new", s.config))
}

var errEnded = errors.New("the plugin has ended")

// until waits for the offers.
func (s *session) until(ctx context.Context, want offers) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	late := time.AfterFunc(patience, func() { giveUp(fmt.Errorf("not within %v", patience)) })
	defer late.Stop()
	go func() {
		select {
		case <-s.ended:
			giveUp(errEnded)
		case <-ctx.Done():
		}
	}()
	if err := s.Until(ctx, func() bool { return maps.Equal(s.offers(want), want) }); err != nil {
		return fmt.Errorf("offers are %v, want %v: %w\n%s", s.offers(want), want, err, s.lastWords())
	}
	return nil
}

// offers of the resources of a wish.
func (s *session) offers(want offers) offers {
	got := offers{}
	for resource := range want {
		got[resource] = s.Healthy(resource)
	}
	return got
}

// ids of the devices of a resource.
func (s *session) ids(resource string) []string {
	ids := []string{}
	for _, d := range s.Devices(resource) {
		ids = append(ids, d.GetID())
	}
	return slices.Sorted(slices.Values(ids))
}

// end stops plugin and kubelet and returns what the plugin did against the protocol.
func (s *session) end() error {
	err := s.stop()
	s.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(append(s.breaches, err)...)
}
