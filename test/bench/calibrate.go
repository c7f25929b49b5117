// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// calibrate measures what the machine takes for the things that every plugin waits for.
func calibrate(ctx context.Context, dir string, f figures) error {
	disk, err := fsync(dir)
	if err != nil {
		return err
	}
	socket, err := echo(ctx)
	if err != nil {
		return err
	}
	file, err := makeFiles(dir)
	if err != nil {
		return err
	}
	f.add(calibrationFsync, disk)
	f.add(calibrationEcho, socket)
	f.add(calibrationFile, file)
	return nil
}

func fsync(dir string) (float64, error) {
	file, err := os.CreateTemp(dir, "fsync")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	page := make([]byte, 4096)
	took, err := each(50, func(int) error {
		_, err := file.WriteAt(page, 0)
		return errors.Join(err, file.Sync())
	})
	return took, errors.Join(err, os.Remove(file.Name()))
}

// echo sends a byte to a server in this process and waits for it to come back.
func echo(ctx context.Context) (took float64, err error) {
	dir, err := os.MkdirTemp("", "echo")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, "s"))
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() { served <- serveEcho(listener) }()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", listener.Addr().String())
	if err != nil {
		return 0, err
	}
	letter := []byte{0}
	took, err = each(2000, func(int) error {
		if _, err := conn.Write(letter); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, letter)
		return err
	})
	if err = errors.Join(err, conn.Close(), <-served); err != nil {
		return 0, fmt.Errorf("echo: %w", err)
	}
	return took, nil
}

func serveEcho(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.Copy(struct{ io.Writer }{conn}, conn)
	return err
}

// Linux's ext4 without a journal passes over every inode whose file was removed in the last minutes (recently_deleted in
// fs/ext4/ialloc.c), which can cost a millisecond for each new file.
const (
	settledFile = 0.2 // ms
	settleLimit = 6 * time.Minute
)

// settle waits until files are made in the folders as fast as where none was removed lately.
func settle(ctx context.Context, dirs ...string) error {
	deadline := time.Now().Add(settleLimit)
	for {
		slowest := 0.0
		for _, dir := range dirs {
			took, err := makeFiles(dir)
			if err != nil {
				return err
			}
			slowest = max(slowest, took)
		}
		if slowest <= settledFile || time.Now().After(deadline) {
			return nil // the row of the calibration says how fast it is
		}
		if err := wait(ctx, 5*time.Second); err != nil {
			return err
		}
	}
}

// makeFiles is how long one new file takes, in ms. The files stay until the folder goes.
func makeFiles(dir string) (float64, error) {
	return each(5, func(int) error {
		file, err := os.CreateTemp(dir, "made")
		if err != nil {
			return err
		}
		return file.Close()
	})
}
