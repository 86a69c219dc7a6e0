package fileio

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/source"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// CatCommand returns `allium cat`.
func CatCommand(a *cli.App) *cobra.Command {
	r := b3.Range{End: -1}
	var through source.GatewayFlags
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
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			if r.End < -1 {
				return status.Errorf(status.BadRange,
					"--end is %d; give -1 for the end of the file, or the offset after the last byte", r.End)
			}
			do := func(s api.Reader, to source.Target) error {
				key, err := source.StaleName(cmd.Context(), a, s, to.Key, maxStale)
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
				return source.CopyOut(a, stream, to.Key, end-r.Start)
			}
			return source.WithSource(cmd.Context(), a, through, from, arg[0], source.EmbedOptions{}, do)
		},
	}
	through.Add(cmd, "read through this gateway")
	source.MaxStaleFlag(cmd, &maxStale)
	source.FromFlag(cmd, &from)
	source.TimeoutFlag(cmd)
	cmd.Flags().Int64Var(&r.Start, "start", 0, "offset of the first byte (default 0)")
	cmd.Flags().Int64Var(&r.End, "end", -1, "offset after the last byte; -1 is the end of the file")
	return cmd
}

// LsCommand returns `allium ls`.
func LsCommand(a *cli.App) *cobra.Command {
	var through source.GatewayFlags
	var maxStale time.Duration
	cmd := &cobra.Command{
		Use:     "ls KEY[/path]",
		Short:   "List a directory",
		Example: "  allium ls $ADDRESS\n  allium ls $ADDRESS/docs --json",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			do := func(s api.Reader, to source.Target) error {
				key, err := source.StaleName(cmd.Context(), a, s, to.Key, maxStale)
				if err != nil {
					return err
				}
				empty := true
				for e, err := range s.List(cmd.Context(), key) {
					if err != nil {
						return err
					}
					empty = false
					if err := a.Print(e, entryText(e, a.Quiet)); err != nil {
						return err
					}
				}
				if empty {
					return a.None("the directory is empty")
				}
				return nil
			}
			return source.WithTarget(cmd.Context(), a, through, arg[0], source.EmbedOptions{}, do)
		},
	}
	through.Add(cmd, "read through this gateway")
	source.MaxStaleFlag(cmd, &maxStale)
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
		bytes = term.Bytes(e.Size)
	}
	if e.Kind != api.Link {
		root = e.Root.String()
	}
	return fmt.Sprintf("%10s  %s  %s", bytes, root, name)
}
