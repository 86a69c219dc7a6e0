package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/gateway/api"
	"allium/protocols/status"
)

// TimeoutFlag defines --timeout of a command that fetches.
func TimeoutFlag(cmd *cobra.Command) {
	var last time.Duration
	cmd.Flags().DurationVar(&last, "timeout", 0, "end after this time, such as 10m, and wait for sources until then; "+
		"the default 0 has no end, and what has begun waits a minute without a source")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, arg []string) error {
		switch {
		case last < 0 || last == 0 && cmd.Flags().Changed("timeout"):
			return failure.NewUsage("write a time such as 10m", "--timeout is %s", last)
		case last == 0:
			return run(cmd, arg)
		}
		over := status.Errorf(status.Timeout, "it has not ended within the --timeout of %s; %s",
			last, AfterInterrupt(cmd))
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), last, over)
		defer cancel()
		cmd.SetContext(ctx)
		err := run(cmd, arg)
		switch o := status.Of(err); {
		case err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded):
			return err
		case errors.Is(err, context.DeadlineExceeded), o == status.Timeout, o == status.Canceled:
			return over
		}
		return err
	}
}

// AfterInterrupt says what a command that was interrupted has left.
func AfterInterrupt(cmd *cobra.Command) string {
	out := cmd.Flags().Lookup("output")
	anew := cmd.Name() == "cat" || out != nil && out.Value.String() == "-"
	if anew || cmd.Flags().Lookup("timeout") == nil || ThroughGateway(cmd) {
		return "nothing that was stored is lost"
	}
	return "run it again to go on"
}

// CopyOut writes a stream to standard output. Progress is shown where the bytes are not.
func CopyOut(a *cli.App, s *api.Stream, what string, total int64) error {
	from := io.Reader(s.Body)
	if a.Columns == 0 {
		report, finish := a.Progress(fmt.Sprintf("reading %s", what))
		defer finish()
		if report != nil {
			from = &reportingReader{s.Body, report, api.Progress{TotalBytes: total}}
		}
	}
	_, err := io.Copy(a.Stdout, from)
	return err
}

// reportingReader reports how much was read.
type reportingReader struct {
	r      io.Reader
	report api.ProgressFunc
	done   api.Progress
}

// Read implements io.Reader.
func (r *reportingReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.done.Bytes += int64(n)
	r.report(r.done)
	return n, err
}
