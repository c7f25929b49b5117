// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Version is stamped by the build.
var Version = "dev"

// Exit statuses; plan gives its own meaning to 2 and 3.
const (
	ok       = 0
	failed   = 1
	changes  = 2
	impeded  = 3
	misusage = 1
)

// Streams is where a command writes.
type Streams struct{ Out, Err io.Writer }

// Command is one subcommand of a binary.
type Command struct {
	Name    string
	Summary string
	Run     func(ctx context.Context, f *Flags, s Streams) int
}

// Binary is a program with its subcommands; API is what its agent serves by default.
type Binary struct {
	Name     string
	APIs     string
	Commands []Command
}

// Main runs one command line and returns the exit status.
func (b Binary) Main(ctx context.Context, args []string, s Streams) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		b.usage(s.Out)
		if len(args) == 0 {
			return misusage
		}
		return ok
	}
	i := slices.IndexFunc(b.Commands, func(c Command) bool { return c.Name == args[0] })
	if i < 0 {
		fmt.Fprintf(s.Err, "%s: there is no command %q; there are %s\n", b.Name, args[0], strings.Join(b.names(), ", "))
		return misusage
	}
	command := b.Commands[i]
	flags, err := parseFlags(b, command, args[1:], s.Err)
	if errors.Is(err, flag.ErrHelp) {
		return ok
	}
	if err != nil {
		fmt.Fprintf(s.Err, "%s %s: %v\n", b.Name, command.Name, err)
		return misusage
	}
	return command.Run(ctx, flags, s)
}

func (b Binary) names() []string {
	names := []string{}
	for _, c := range b.Commands {
		names = append(names, c.Name)
	}
	return append(names, "help")
}

func (b Binary) usage(w io.Writer) {
	fmt.Fprintf(w, "usage: %s COMMAND [FLAGS]\n\n", b.Name)
	for _, c := range b.Commands {
		fmt.Fprintf(w, "  %-10s %s\n", c.Name, c.Summary)
	}
	fmt.Fprintf(w, "  %-10s %s\n\n%s COMMAND -h lists the flags.\n", "help", "this text", b.Name)
}

// VersionCommand prints what the build stamped.
func VersionCommand() Command {
	return Command{Name: "version", Summary: "print the version", Run: func(_ context.Context, f *Flags, s Streams) int {
		fmt.Fprintf(s.Out, "%s %s\n", f.binary, Version)
		return ok
	}}
}
