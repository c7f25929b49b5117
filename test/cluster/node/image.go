// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"gpuslice/test/cluster/image"
)

// ImportImage builds the image and gives it to the container runtime. Pods use it with imagePullPolicy Never or IfNotPresent.
func (n *Node) ImportImage(ctx context.Context, img image.Image) error {
	var archive bytes.Buffer
	if err := img.WriteArchive(&archive); err != nil {
		return err
	}
	return n.ImportArchive(ctx, img.Name, &archive)
}

// ImportArchive gives a docker-archive tar, which must hold the named image, to the container runtime.
func (n *Node) ImportArchive(ctx context.Context, name string, archive io.Reader) error {
	if _, err := n.ctr(ctx, archive, "images", "import", "-"); err != nil {
		return fmt.Errorf("import image %s: %w", name, err)
	}
	found, err := n.ctr(ctx, nil, "images", "ls", "-q", "name=="+name)
	if err != nil {
		return fmt.Errorf("look for image %s: %w", name, err)
	}
	if strings.TrimSpace(found) != name {
		return fmt.Errorf("import image %s: the archive has no image of that name", name)
	}
	return nil
}

func (n *Node) ctr(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	global := []string{"--address", ContainerdSocket, "--namespace", RuntimeNamespace}
	command := exec.CommandContext(ctx, n.Dir.Program("ctr"), append(global, args...)...)
	var stderr bytes.Buffer
	command.Stdin, command.Stderr = stdin, &stderr
	stdout, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(stdout), nil
}
