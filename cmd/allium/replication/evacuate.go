package replication

import (
	"context"
	"fmt"
	"time"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/status"
)

// waitLine is the shortest time between two lines about what a command waits for where there is no terminal.
const waitLine = 10 * time.Second

// HandOver has the node hand its copies over and waits until it has. How far it is shows on standard error, or as JSON
// on standard output.
func HandOver(ctx context.Context, a *cli.App, n api.Node) error {
	w := evacuationWriter{app: a, bar: a.Line("handing over", false)}
	var last api.Evacuation
	for e, err := range n.Evacuate(ctx) {
		if err != nil {
			w.finish()
			return evacuationError(ctx, err)
		}
		last = e
		if err := w.write(e, time.Now()); err != nil {
			return err
		}
	}
	w.finish()
	if !last.Done {
		return status.Errorf(status.Upstream, "the node ended the evacuation without saying how")
	}
	return a.Tell(evacuatedText(last))
}

// evacuationError returns the error of an evacuation, which goes on without the command.
func evacuationError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.Errorf(status.Canceled,
			"it was interrupted; the node goes on handing its copies over and does not "+
				"stop at the end. `allium durability` shows how far it is, `allium node drain --evacuate` waits "+
				"again, and with --stop it ends")
	}
	return err
}

// evacuationWriter shows how far an evacuation is.
type evacuationWriter struct {
	app  *cli.App
	bar  *term.Progress // nil where no terminal is
	said time.Time      // when the latest line was written
	text string
}

func (w *evacuationWriter) write(e api.Evacuation, now time.Time) error {
	switch {
	case w.app.JSON:
		return w.app.Print(e, "")
	case w.bar != nil:
		w.bar.Report(api.Progress{Objects: int64(e.Objects - e.Left), TotalObjects: int64(e.Objects)})
		if e.Why == w.text {
			return nil
		}
		if w.text = e.Why; e.Why == "" {
			return nil
		}
		w.bar.Clear()
		return w.app.Tell(e.Why)
	}
	line := evacuationText(e)
	if line == w.text || now.Sub(w.said) < waitLine {
		return nil
	}
	w.said, w.text = now, line
	return w.app.Tell(line)
}

func (w *evacuationWriter) finish() {
	if w.bar != nil {
		w.bar.Finish()
	}
}

// StopEvacuation ends an evacuation, and says so.
func StopEvacuation(ctx context.Context, a *cli.App, n api.Node) error {
	if err := n.StopEvacuation(ctx); err != nil {
		return err
	}
	return a.Print(struct{}{}, a.Loud("the node is a full member of its cluster"))
}

// copiesResumedText says that missing copies are sent again.
func copiesResumedText(r api.Resumed) string {
	if r.Silent == 0 {
		return "no member is silent, so nothing held copies back"
	}
	return fmt.Sprintf("this node makes all copies that are missing, as if %s did not come back",
		printable.Count(r.Silent, "silent member"))
}

// evacuationText says in a line how far an evacuation is.
func evacuationText(e api.Evacuation) string {
	if !e.Ready && e.Left == 0 {
		return "handing over: the node is looking at its pins"
	}
	s := fmt.Sprintf("handing over: %d of %s", e.Objects-e.Left, printable.Count(e.Objects, "object"))
	if e.Left > 0 {
		s += fmt.Sprintf(", %s left", term.Bytes(e.LeftBytes))
	}
	if e.Why != "" {
		s += "; " + e.Why
	}
	return s
}

// evacuatedText says that an evacuation has ended.
func evacuatedText(e api.Evacuation) string {
	if e.Objects == 0 {
		return "no pin of this node asks for copies, so nothing had to be handed over"
	}
	return fmt.Sprintf("%s handed over: others hold and have proved all copies that are asked for",
		printable.Count(e.Objects, "object"))
}
