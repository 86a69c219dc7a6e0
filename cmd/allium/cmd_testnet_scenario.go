package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"allium/protocols/status"
	"allium/testnet"
	"allium/testnet/script"
)

func (a *app) testnetScenarioCommand() *cobra.Command {
	var o testnet.PlayOptions
	var processes, verbose bool
	var recording string
	cmd := &cobra.Command{
		Use:   "scenario FILE…",
		Short: "Play scenarios, each on a network of its own",
		Long: `Play scenarios, one after the other, each on a network of its own that is taken
down again. A scenario is a text file of steps and expectations, see
docs/contributing/testnet.md; what is expected is waited for. A failure names the
file, the line and what was seen, and shows the state of the network. The exit
code is that of the first failure.`,
		Example: `  allium testnet scenario testnet/testdata/*.txt
  allium testnet scenario mishap.txt --processes -v`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if processes {
				if o.Binary, err = testnet.Self(); err != nil {
					return err
				}
			}
			files, err := readScenarios(names)
			if err != nil {
				return err
			}
			if recording != "" {
				if len(files) > 1 {
					return status.Errorf(status.BadRequest, "--record writes one scenario, and there are %d; name one file", len(files))
				}
				f, err := os.Create(recording)
				if err != nil {
					return status.Errorf(status.BadRequest, "%w; name a file that can be written with --record", err)
				}
				o.Record = f
				defer func() { err = errors.Join(err, f.Close()) }()
			}
			if verbose || a.json {
				o.Report = a.reportStep
			}
			var errs []error
			for _, f := range files {
				if cmd.Context().Err() == nil {
					errs = append(errs, a.playScenario(cmd.Context(), f, o))
				}
			}
			return errors.Join(errs...)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&processes, "processes", false, "one process for each node")
	fl.BoolVarP(&verbose, "verbose", "v", false, "show each step and what it came to")
	fl.Uint64Var(&o.Seed, "seed", 0, "of identities and content, in place of the file's")
	fl.StringVar(&recording, "record", "", "write the scenario again to this file, with what was seen")
	return cmd
}

// readScenarios reads all files before the first is played.
func readScenarios(names []string) ([]*script.File, error) {
	files := make([]*script.File, len(names))
	for i, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, status.Errorf(status.BadRequest, "%w; name a scenario file", err)
		}
		text, err := io.ReadAll(io.LimitReader(f, script.MaxFile+1))
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, status.Errorf(status.BadRequest, "%s: %w", name, err)
		}
		if files[i], err = script.ParseFile(name, text); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// played is how a scenario ended.
type played struct {
	File   string         `json:"file"`
	OK     bool           `json:"ok"`
	Steps  int            `json:"steps"`
	TookMS int64          `json:"took_ms"`
	Error  *status.Report `json:"error,omitempty"`
}

func (a *app) playScenario(ctx context.Context, f *script.File, o testnet.PlayOptions) error {
	begun := time.Now()
	err := testnet.Play(ctx, f, o)
	took := time.Since(begun).Round(time.Millisecond)
	p := played{File: f.Name, OK: err == nil, Steps: len(f.Steps), TookMS: took.Milliseconds()}
	word := "ok  "
	if err != nil {
		r := status.ReportOf(err)
		p.Error, word = &r, "FAIL"
	}
	return errors.Join(a.print(p, fmt.Sprintf("%s  %s  %d steps in %s", word, f.Name, p.Steps, took)), err)
}

// reportStep shows a step as it ended.
func (a *app) reportStep(e testnet.Event) {
	if a.json {
		_ = a.print(e, "")
		return
	}
	mark, said := " ", e.Said.String()
	if e.Error != nil {
		mark, said = "!", e.Error.Message
	}
	fmt.Fprintf(a.stdout, "%s %4d  %-40s %7.0f ms  %s\n", mark, e.Line, e.Step, e.TookMS, said)
}
