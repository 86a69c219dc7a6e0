package audit

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/env"
	"allium/internal/testkit"
)

// TestTells: without a directory each record is a line of the node's log with all
// that a file would have but the hash, and a flood of refusals stays bounded.
func TestTells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l, err := New(DefaultConfig(), "", Deps{Env: env.Env{Log: slog.New(slog.NewJSONHandler(&out, nil))}})
		if err != nil {
			t.Fatal(err)
		}
		stop := testkit.Start(t, l.Run)
		full := Event{
			Actor: "uid:1", Addr: "192.0.2.1:9", Method: "PUT", Route: "o", Op: "put",
			Object: "b3:x", Name: "n", Label: "l",
			Outcome: "ok",
			Bytes:   7, Count: 8, Of: 9, CorrID: "c", Detail: "é<\n",
		}
		seq, err := l.Mutation(t.Context(), full)
		if err != nil || seq != 2 || l.Err() != nil {
			t.Errorf("%d, %v, %v", seq, err, l.Err())
		}
		l.Outcome(t.Context(), Event{Of: seq, Outcome: "ok"})
		for range 1000 {
			l.Refused(Event{Outcome: "forbidden"})
		}
		time.Sleep(2 * reportEvery)
		synctest.Wait()
		stop()

		kinds := map[Kind]int{}
		var told, left uint64
		for line := range bytes.Lines(out.Bytes()) {
			var r struct {
				Level, Msg string
				Record
			}
			d := json.NewDecoder(bytes.NewReader(line))
			d.DisallowUnknownFields()
			if err := d.Decode(&r); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			told++
			if r.Level != "INFO" || r.Msg != "audit" || r.Seq != told || r.Prev != "" {
				t.Errorf("record %d: %s", told, line)
			}
			kinds[r.Kind]++
			switch r.Kind {
			case Mutation:
				full.Kind = Mutation
				if !reflect.DeepEqual(r.Event, full) {
					t.Errorf("%+v, want %+v", r.Event, full)
				}
			case Outcome:
				if r.Of != seq {
					t.Errorf("an outcome of %d", r.Of)
				}
			case Suppressed:
				left += r.Count
			}
		}
		refused := int(DefaultConfig().Refusals)
		if want := map[Kind]int{
			Start: 1, Mutation: 1, Outcome: 1, Refusal: refused, Suppressed: 1, Stop: 1,
		}; !reflect.DeepEqual(kinds, want) || left != 1000-uint64(refused) {
			t.Errorf("%v and %d left out, want %v", kinds, left, want)
		}
	})
}
