package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/internal/printable"
	"allium/protocols/status"
	"allium/testnet"
	"allium/testnet/script"
)

func testnetScenarioCommand(a *cli.App) *cobra.Command {
	var o testnet.PlayOptions
	var programs programFlags
	var verbose bool
	var recording string
	cmd := &cobra.Command{
		Use:   "scenario FILE…",
		Short: "Play scenarios, each on a new network",
		Long: `Play scenarios, one after the other, each on a new network. A scenario is a
text file of steps and expectations (see docs/contributing/testnet.md). A step that
expects something waits for it. A failure names the file, the line and what was
seen, and shows the state of the network. The exit code is that of the first
failure.`,
		Example: `  allium testnet scenario testnet/testdata/*.txt
  allium testnet scenario mishap.txt --processes -v
  allium testnet scenario testnet/testdata/*.txt --other ./allium-of-last-month`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if o.Binary, o.Other, err = programs.find(); err != nil {
				return err
			}
			files, err := readScenarios(names)
			if err != nil {
				return err
			}
			if recording != "" {
				if len(files) > 1 {
					return failure.NewUsage("name one file",
						"--record writes one scenario, and there are %d", len(files))
				}
				f, err := cli.CreateOutput("--record", recording)
				if err != nil {
					return err
				}
				o.Record = f
				defer func() { err = errors.Join(err, f.Close()) }()
			}
			if verbose || a.JSON {
				o.Report = func(e testnet.Event) { reportStep(a, e) }
			}
			var errs []error
			for _, f := range files {
				if cmd.Context().Err() == nil {
					errs = append(errs, playScenario(cmd.Context(), a, f, o))
				}
			}
			return errors.Join(errs...)
		},
	}
	fl := cmd.Flags()
	programs.define(cmd)
	fl.BoolVarP(&verbose, "verbose", "v", false, "show each step and its result")
	fl.Uint64Var(&o.Seed, "seed", 0, "seed of identities and content (default: that of the file)")
	fl.StringVar(&recording, "record", "", "file for the scenario with what was seen (default: none)")
	return cmd
}

// readScenarios reads all files, so that a bad file is found before any is played.
func readScenarios(names []string) ([]*script.File, error) {
	files := make([]*script.File, len(names))
	for i, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, failure.NewUsage("name a scenario file", "%v", err)
		}
		content, err := io.ReadAll(io.LimitReader(f, script.MaxFile+1))
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, status.Errorf(status.BadRequest, "%s cannot be read: %w", name, err)
		}
		if files[i], err = script.ParseFile(name, content); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// played is the result of a scenario.
type played struct {
	File   string         `json:"file"`
	OK     bool           `json:"ok"`
	Steps  int            `json:"steps"`
	TookMS int64          `json:"took_ms"`
	Error  *status.Report `json:"error,omitempty"`
}

// playScenario plays one scenario and prints how it ended.
func playScenario(ctx context.Context, a *cli.App, f *script.File, o testnet.PlayOptions) error {
	begun := time.Now()
	err := testnet.Play(ctx, f, o)
	took := time.Since(begun).Round(time.Millisecond)
	p := played{File: f.Name, OK: err == nil, Steps: len(f.Steps), TookMS: took.Milliseconds()}
	word := "ok  "
	if err != nil {
		r := status.ReportOf(err)
		p.Error, word = &r, "FAIL"
	}
	human := fmt.Sprintf("%s  %s  %s in %s", word, f.Name, printable.Count(p.Steps, "step"), took)
	return errors.Join(a.Print(p, human), err)
}

// reportStep prints a step that ended, with --verbose or --json.
func reportStep(a *cli.App, e testnet.Event) {
	if a.JSON {
		_ = a.Print(e, "")
		return
	}
	mark, said := " ", e.Said.String()
	if e.Error != nil {
		mark, said = "!", e.Error.Message
	}
	fmt.Fprintf(a.Stdout, "%s %4d  %-40s %7.0f ms  %s\n", mark, e.Line, e.Step, e.TookMS, said)
}
