// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// programLimit bounds a stop, which includes the program's own grace period, and a start.
const programLimit = time.Minute

// Stop ends a program of the node, such as "kubelet" or "kube-apiserver", and returns when it has ended.
func (n *Node) Stop(ctx context.Context, program string) error {
	return n.control(ctx, "stop", program)
}

// Start starts a program of the node that was stopped. It does not wait until the program serves.
func (n *Node) Start(ctx context.Context, program string) error {
	return n.control(ctx, "start", program)
}

func (n *Node) control(ctx context.Context, verb, program string) error {
	ctx, cancel := context.WithTimeout(ctx, programLimit)
	defer cancel()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", n.Dir.ControlSocket())
	}}
	defer transport.CloseIdleConnections()
	address := "http://node/" + verb + "?" + url.Values{"program": {program}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, program, err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, program, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		reason, err := io.ReadAll(io.LimitReader(response.Body, 4096))
		if err != nil {
			return fmt.Errorf("%s %s: read the reason: %w", verb, program, err)
		}
		return fmt.Errorf("%s %s: %s", verb, program, strings.TrimSpace(string(reason)))
	}
	return nil
}
