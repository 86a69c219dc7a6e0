package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"allium/cmd/allium/text"
	"allium/gateway/api"
)

func (a *app) pinCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pin",
		Short: "Keep objects: a pinned object is never evicted",
		Example: `  allium pin add $ADDRESS
  allium pin ls
  allium pin rm $ADDRESS`,
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
		Example: `  allium pin add $ADDRESS
  allium pin add $ADDRESS --label backups`,
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
	cmd.Flags().BoolVar(&direct, "direct", false, "pin only this object, not what is below it")
	cmd.Flags().StringVar(&label, "label", "", "label of the pin; an object may have several labels (default: no label)")
	return cmd
}

func (a *app) pinRmCommand() *cobra.Command {
	var label string
	cmd := &cobra.Command{
		Use:     "rm KEY",
		Short:   "Remove pins of an object; the object stays until its space is needed",
		Example: "  allium pin rm $ADDRESS\n  allium pin rm $ADDRESS --label backups",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return a.withStore(cmd.Context(), func(s api.Store) error {
				return s.Unpin(cmd.Context(), arg[0], label)
			})
		},
	}
	cmd.Flags().StringVar(&label, "label", "", "remove only the pin with this label (default: all pins)")
	return cmd
}

func (a *app) pinLsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the pins: address, size, kind, label and age",
		Long: `List the pins: its address, what it keeps, whether it is direct or recursive, its
label, and when it was set. The size is that of the object and of all files below it;
≥ stands before one that may be larger, because something is not stored here or the
pins name more than 65,536 entries.`,
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
						human = text.PinLine(p)
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

// pinResult is a new pin for people.
func (a *app) pinResult(verb string, p api.Pin) string {
	if a.quiet {
		return p.Root.String()
	}
	return fmt.Sprintf("%s %s (%s)", verb, p.Root, text.Pin(p))
}
