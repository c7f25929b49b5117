// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpuslice/pkg/regular"
)

// version is the format of every file; a reader takes its own and older ones.
const version = 1

// Device is one thing that a claim holds: a whole GPU, or a slot of it.
type Device struct {
	Request   string `json:"request"`
	Pool      string `json:"pool"`
	Name      string `json:"name"`      // as published, "gpu-0-mig-3g40gb-9-4"
	GPU       string `json:"gpu"`       // UUID of the physical GPU
	ProfileID int    `json:"profileId"` // -1 for a whole GPU
	Start     int    `json:"start"`
	Admin     bool   `json:"admin,omitempty"` // looks on, holds nothing
}

// Whole says that the device is a GPU, not a slot of one.
func (d Device) Whole() bool { return d.ProfileID < 0 }

// Claim is what a prepared ResourceClaim asked for: intent, nothing derived from it.
type Claim struct {
	UID       string   `json:"uid"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Devices   []Device `json:"devices"`
}

func (c Claim) String() string { return c.Namespace + "/" + c.Name }

type claimFile struct {
	Version int    `json:"version"`
	BootID  string `json:"bootId"`
	Claim   Claim  `json:"claim"`
}

// Store is the state directory of one agent; the agent lock makes it the only writer.
type Store struct {
	dir    string
	bootID string
}

// Open makes the directory if need be.
func Open(dir, bootID string) (*Store, error) {
	if err := os.MkdirAll(filepath.Join(dir, "claims"), 0o700); err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	return &Store{dir: dir, bootID: bootID}, nil
}

// Clean removes what a crash left of a write. It is for the holder of the agent lock, before anything is written.
func (s *Store) Clean() error {
	errs := []error{}
	for _, folder := range []string{"", "gpus", "limits", "health"} { // those of claims are removed when they are read
		left, err := filepath.Glob(filepath.Join(s.dir, folder, temporary("*", "*")))
		if err != nil {
			return fmt.Errorf("clean state directory: %w", err)
		}
		for _, path := range left {
			errs = append(errs, Remove(path))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) claimPath(uid string) (string, error) {
	if uid == "" || strings.ContainsAny(uid, "/\x00") || strings.HasPrefix(uid, ".") {
		return "", fmt.Errorf("claim UID %q cannot be a file name", uid)
	}
	return filepath.Join(s.dir, "claims", uid+".json"), nil
}

// asideSuffix marks a file that could not be read, until its claim is prepared again or gone.
const asideSuffix = ".bad"

// SaveClaim writes the intent; when it returns nil the claim survives any crash.
func (s *Store) SaveClaim(c Claim) error {
	path, err := s.claimPath(c.UID)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(claimFile{Version: version, BootID: s.bootID, Claim: c}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode claim %s: %w", c, err)
	}
	if err := WriteFile(path, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return Remove(path + asideSuffix)
}

// DeleteClaim forgets a claim; an unknown one is success.
func (s *Store) DeleteClaim(uid string) error {
	path, err := s.claimPath(uid)
	if err != nil {
		return err
	}
	return errors.Join(Remove(path), Remove(path+asideSuffix))
}

// UnreadableError says why the intent of a claim could not be read.
type UnreadableError struct {
	UID string // from the file's name
	error
}

// Claims reads all intents of this boot, ordered by UID. A file that does not decode is moved aside alone and named in bad,
// now and at later starts; intents of an earlier boot are dropped, because nothing of what they held is left and the kubelet asks again.
func (s *Store) Claims() (claims []Claim, bad []UnreadableError, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "claims"))
	if err != nil {
		return nil, nil, fmt.Errorf("read claims: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, "claims", e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."): // what a crash left of a write
			err = Remove(path)
		case filepath.Ext(e.Name()) == asideSuffix:
			err = fmt.Errorf("%s was set aside as not readable; what its claim holds is not known", path)
		case filepath.Ext(e.Name()) == ".json":
			var c *Claim
			if c, err = s.readClaim(path); c != nil {
				claims = append(claims, *c)
			}
		}
		if err != nil {
			uid, _, _ := strings.Cut(e.Name(), ".json")
			bad = append(bad, UnreadableError{UID: uid, error: err})
			err = nil
		}
	}
	slices.SortFunc(claims, func(a, b Claim) int { return strings.Compare(a.UID, b.UID) })
	return claims, bad, nil
}

// maxFile is far above what this package writes into any file.
const maxFile = 16 << 20

// readClaim returns nil without error for an intent of another boot.
func (s *Store) readClaim(path string) (*Claim, error) {
	text, err := regular.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read claim: %w", err)
	}
	var f claimFile
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&f); err != nil || f.Claim.UID+".json" != filepath.Base(path) {
		if err == nil {
			err = fmt.Errorf("it is about claim %q", f.Claim.UID)
		}
		return nil, errors.Join(fmt.Errorf("%s is not readable and was set aside: %w", path, err), os.Rename(path, path+asideSuffix))
	}
	if f.Version > version {
		return nil, fmt.Errorf("%s has format %d, this agent reads up to %d", path, f.Version, version)
	}
	if f.BootID != s.bootID {
		return nil, Remove(path)
	}
	return &f.Claim, nil
}

const configName = "config.yaml"

// SaveConfig keeps the last config that was accepted.
func (s *Store) SaveConfig(text []byte) error {
	return WriteFile(filepath.Join(s.dir, configName), text, 0o600)
}

// Config returns the last config that was accepted; nil when there never was one.
func (s *Store) Config() ([]byte, error) {
	text, err := regular.ReadFile(filepath.Join(s.dir, configName), maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read last good config: %w", err)
	}
	return text, nil
}

const resourcesName = "resources.json"

// SaveResources keeps every resource name that was ever offered here.
func (s *Store) SaveResources(names []string) error {
	text, err := json.Marshal(names)
	if err != nil {
		return fmt.Errorf("encode resource names: %w", err)
	}
	return WriteFile(filepath.Join(s.dir, resourcesName), append(text, '\n'), 0o600)
}

// Resources returns the names that were kept; none when there never were any or they are not readable any more.
func (s *Store) Resources() ([]string, error) {
	text, err := regular.ReadFile(filepath.Join(s.dir, resourcesName), maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read resource names: %w", err)
	}
	var names []string
	if json.Unmarshal(text, &names) != nil {
		return nil, nil // they are collected anew
	}
	return names, nil
}

// Peek reads the intents of another process's state directory and changes nothing there.
func Peek(dir string) ([]Claim, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "claims", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	claims := []Claim{}
	for _, path := range paths {
		var f claimFile
		text, err := regular.ReadFile(path, maxFile)
		if errors.Is(err, os.ErrNotExist) {
			continue // released just now
		}
		if err = errors.Join(err, json.Unmarshal(text, &f)); err != nil {
			return nil, fmt.Errorf("read claim %s: %w", path, err)
		}
		claims = append(claims, f.Claim)
	}
	return claims, nil
}
