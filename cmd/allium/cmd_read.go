package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// catCommand returns `allium cat`.
func catCommand(a *app) *cobra.Command {
	r := b3.Range{End: -1}
	var through gatewayFlags
	var maxStale time.Duration
	var from string
	cmd := &cobra.Command{
		Use:   "cat KEY[/path]",
		Short: "Write a file's bytes to standard output",
		Long: `Write a file's bytes to standard output. Every 64 KiB is proved against the
address before it is written. If the transfer ends early, the exit code is not 0.`,
		Example: `  allium cat $ADDRESS
  allium cat $ADDRESS/docs/index.html --start 100 --end 200
  allium cat $ADDRESS --gateway https://gateway.example.org`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			if r.End < -1 {
				return status.Errorf(status.BadRange,
					"--end is %d; give -1 for the end of the file, or the offset after the last byte", r.End)
			}
			do := func(s api.Reader, to target) error {
				key, err := staleName(cmd.Context(), a, s, to.key, maxStale)
				if err != nil {
					return err
				}
				stream, err := s.Cat(cmd.Context(), key, r)
				if err != nil {
					return err
				}
				defer stream.Body.Close()
				end := stream.Size
				if r.End >= 0 {
					end = min(r.End, end)
				}
				return copyOut(a, stream, to.key, end-r.Start)
			}
			return withSource(cmd.Context(), a, through, from, arg[0], embedOptions{}, do)
		},
	}
	through.add(cmd, "read through this gateway")
	maxStaleFlag(cmd, &maxStale)
	fromFlag(cmd, &from)
	timeoutFlag(cmd)
	cmd.Flags().Int64Var(&r.Start, "start", 0, "offset of the first byte (default 0)")
	cmd.Flags().Int64Var(&r.End, "end", -1, "offset after the last byte; -1 is the end of the file")
	return cmd
}

// lsCommand returns `allium ls`.
func lsCommand(a *app) *cobra.Command {
	var through gatewayFlags
	var maxStale time.Duration
	cmd := &cobra.Command{
		Use:     "ls KEY[/path]",
		Short:   "List a directory",
		Example: "  allium ls $ADDRESS\n  allium ls $ADDRESS/docs --json",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return withTarget(cmd.Context(), a, through, arg[0], embedOptions{}, func(s api.Reader, to target) error {
				key, err := staleName(cmd.Context(), a, s, to.key, maxStale)
				if err != nil {
					return err
				}
				empty := true
				for e, err := range s.List(cmd.Context(), key) {
					if err != nil {
						return err
					}
					empty = false
					if err := a.print(e, entryText(e, a.quiet)); err != nil {
						return err
					}
				}
				if empty {
					return a.none("the directory is empty")
				}
				return nil
			})
		},
	}
	through.add(cmd, "read through this gateway")
	maxStaleFlag(cmd, &maxStale)
	return cmd
}

// entryText is an entry of a directory: size, address and name. If quiet, it is only
// the name.
func entryText(e api.Entry, quiet bool) string {
	name := printable.Name(e.Name)
	if quiet {
		return name
	}
	switch e.Kind {
	case api.Directory:
		name += "/"
	case api.Link:
		name += " -> " + printable.Name(e.Target)
	}
	bytes, root := "-", strings.Repeat(" ", len("b3:")+64)
	if e.Kind == api.File {
		bytes = sizeText(e.Size)
	}
	if e.Kind != api.Link {
		root = e.Root.String()
	}
	return fmt.Sprintf("%10s  %s  %s", bytes, root, name)
}
