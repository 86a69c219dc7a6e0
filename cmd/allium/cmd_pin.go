package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"allium/gateway/api"
)

func (a *app) pinCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pin",
		Short: "Keep objects, so that they are never evicted",
		Example: `  allium pin add b3:…
  allium pin ls
  allium pin rm b3:…`,
	}
	cmd.AddCommand(a.pinAddCommand(), a.pinRmCommand(), a.pinLsCommand())
	return cmd
}

func (a *app) pinAddCommand() *cobra.Command {
	var direct bool
	var label string
	cmd := &cobra.Command{
		Use:   "add KEY",
		Short: "Pin an object with everything below it, fetching what is missing",
		Example: `  allium pin add b3:…
  allium pin add b3:… --label backups`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return a.withStore(cmd.Context(), func(s api.Store) error {
				if n, ok := s.(api.Node); ok {
					report, finish := a.progress("fetching")
					defer finish()
					if _, err := n.Fetch(cmd.Context(), arg[0], report); err != nil {
						return err
					}
					finish()
				}
				p, err := s.Pin(cmd.Context(), arg[0], api.PinOptions{Recursive: !direct, Label: label})
				if err != nil {
					return err
				}
				return a.print(p, a.pinResult("pinned", p))
			})
		},
	}
	cmd.Flags().BoolVar(&direct, "direct", false, "pin this object alone, not what it leads to")
	cmd.Flags().StringVar(&label, "label", "", "label of the pin; one object may have several")
	return cmd
}

func (a *app) pinRmCommand() *cobra.Command {
	var label string
	cmd := &cobra.Command{
		Use:     "rm KEY",
		Short:   "Remove pins of an object; the object stays until its space is needed",
		Example: "  allium pin rm b3:…\n  allium pin rm b3:… --label backups",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return a.withStore(cmd.Context(), func(s api.Store) error {
				return s.Unpin(cmd.Context(), arg[0], label)
			})
		},
	}
	cmd.Flags().StringVar(&label, "label", "", "only the pin with this label")
	return cmd
}

func (a *app) pinLsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the pins",
		Example: "  allium pin ls --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), func(s api.Store) error {
				for p, err := range s.Pins(cmd.Context()) {
					if err != nil {
						return err
					}
					human := p.Root.String()
					if !a.quiet {
						human += "  " + pinLine(p)
					}
					if err := a.print(p, human); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func (a *app) pinResult(verb string, p api.Pin) string {
	if a.quiet {
		return p.Root.String()
	}
	return fmt.Sprintf("%s %s (%s)", verb, p.Root, pinLine(p))
}

// pinLine is a pin without its address.
func pinLine(p api.Pin) string {
	s := "direct"
	if p.Recursive {
		s = "recursive"
	}
	if p.Label != "" {
		s += fmt.Sprintf(" %q", p.Label)
	}
	if !p.Since.IsZero() {
		s += " since " + p.Since.Local().Format(time.DateTime)
	}
	return s
}
