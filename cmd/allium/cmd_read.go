package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/internal/printable"
	"allium/protocols/status"
)

func (a *app) catCommand() *cobra.Command {
	r := api.Range{End: -1}
	var through gatewayFlags
	cmd := &cobra.Command{
		Use:   "cat KEY[/path]",
		Short: "Write a file's bytes to standard output",
		Long: `Write a file's bytes to standard output. Every 64 KiB is proved against the
address before it is written; if the transfer ends early, the exit code says so.`,
		Example: `  allium cat b3:…
  allium cat b3:…/docs/index.html --start 100 --end 200
  allium cat b3:… --gateway https://gateway.example.org`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			if r.End < -1 {
				return status.Errorf(status.BadRange, "--end is %d, must be -1 or more", r.End)
			}
			return a.withReader(cmd.Context(), through, func(s api.Reader) error {
				stream, err := s.Cat(cmd.Context(), arg[0], r)
				if err != nil {
					return err
				}
				defer stream.Body.Close()
				_, err = io.Copy(a.stdout, stream.Body)
				return err
			})
		},
	}
	through.add(cmd, "read through")
	cmd.Flags().Int64Var(&r.Start, "start", 0, "first byte")
	cmd.Flags().Int64Var(&r.End, "end", -1, "byte after the last; -1 is the end of the file")
	return cmd
}

func (a *app) lsCommand() *cobra.Command {
	var through gatewayFlags
	cmd := &cobra.Command{
		Use:     "ls KEY[/path]",
		Short:   "List a directory",
		Example: "  allium ls b3:…\n  allium ls b3:…/docs --json",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return a.withReader(cmd.Context(), through, func(s api.Reader) error {
				for e, err := range s.List(cmd.Context(), arg[0]) {
					if err != nil {
						return err
					}
					if err := a.print(e, a.entryLine(e)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	through.add(cmd, "read through")
	return cmd
}

// entryLine is an entry for people: size, address, name; with -q the name.
func (a *app) entryLine(e api.Entry) string {
	name := printable.Name(e.Name)
	if a.quiet {
		return name
	}
	switch e.Kind {
	case api.Directory:
		name += "/"
	case api.Link:
		name += " -> " + printable.Name(e.Target)
	}
	size, root := "-", strings.Repeat(" ", len("b3:")+64)
	if e.Kind == api.File {
		size = limits.Bytes(e.Size).Human()
	}
	if e.Kind != api.Link {
		root = e.Root.String()
	}
	return fmt.Sprintf("%10s  %s  %s", size, root, name)
}

func (a *app) verifyCommand() *cobra.Command {
	var all bool
	var o api.VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify [KEY]",
		Short: "Read objects again and prove every byte",
		Long: `Read an object, everything below a directory, or all there is, from the disk and
prove every 64 KiB group against its address. What is damaged or missing is
named, and the exit code is 65. With --repair the running node first fetches it
again from whoever has it, and the exit code is 65 only if something stays bad.

With --all the pins are followed too: what one of them leads to and is absent is
named with the way to it, and a node that runs fetches it. Open damage of the
store is told as well (see allium store damage --help).`,
		Example: "  allium verify b3:…\n  allium verify --all\n  allium verify --all --repair",
		Args: func(cmd *cobra.Command, got []string) error {
			want := cobra.ExactArgs(1)
			if all {
				want = cobra.NoArgs
			}
			return args(want)(cmd, got)
		},
		RunE: func(cmd *cobra.Command, arg []string) error {
			key := ""
			if !all {
				key = arg[0]
			}
			return a.withStore(cmd.Context(), func(s api.Store) error {
				return a.verify(cmd.Context(), s, key, o)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every object in the store")
	cmd.Flags().BoolVar(&o.Repair, "repair", false, "fetch again what is damaged or missing; a node has to run")
	return cmd
}
