package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"allium/gateway/client"
	"allium/node"
	"allium/protocols/status"
)

func (a *app) catCommand() *cobra.Command {
	r := client.Range{End: -1}
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
			return a.withReader(cmd.Context(), through, func(s client.Reader) error {
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
			return a.withReader(cmd.Context(), through, func(s client.Reader) error {
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
func (a *app) entryLine(e client.Entry) string {
	name := e.Name
	switch e.Kind {
	case client.Directory:
		name += "/"
	case client.Link:
		name += " -> " + e.Target
	}
	if a.quiet {
		return e.Name
	}
	size, root := "-", strings.Repeat(" ", len("b3:")+64)
	if e.Kind == client.File {
		size = node.HumanSize(e.Size)
	}
	if e.Kind != client.Link {
		root = e.Root.String()
	}
	return fmt.Sprintf("%10s  %s  %s", size, root, name)
}

func (a *app) verifyCommand() *cobra.Command {
	var all bool
	var o client.VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify [KEY]",
		Short: "Read objects again and prove every byte",
		Long: `Read an object, everything below a directory, or all there is, from the disk and
prove every 64 KiB group against its address. What is damaged or missing is
named, and the exit code is 65. With --repair the running node first fetches it
again from whoever has it, and the exit code is 65 only if something stays bad.`,
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
			return a.withStore(cmd.Context(), func(s client.Store) error {
				return a.verify(cmd.Context(), s, key, o)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every object in the store")
	cmd.Flags().BoolVar(&o.Repair, "repair", false, "fetch again what is damaged or missing; a node has to run")
	return cmd
}
