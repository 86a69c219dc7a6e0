package main

import (
	"context"
	"fmt"

	"allium/gateway/client"
	"allium/node"
	"allium/protocols/status"
)

// verify prints bad objects as they are found and a summary at the end.
func (a *app) verify(ctx context.Context, s client.Store, key string) error {
	report, finish := a.progress("verifying")
	defer finish()
	var good, bad, bytes int64
	for v, err := range s.Verify(ctx, key) {
		if err != nil {
			return err
		}
		if v.Error == nil {
			good++
			bytes += v.Size
			if report != nil {
				report(client.Progress{Objects: good, Bytes: bytes})
			}
		} else {
			bad++
		}
		human := ""
		if v.Error != nil {
			human = fmt.Sprintf("%s %s: %s", v.Root, v.Error.Reason, v.Error.Message)
		}
		if err := a.print(v, human); err != nil {
			return err
		}
	}
	finish()
	if bad > 0 {
		return status.Errorf(status.Corrupt, "%d of %d objects are damaged or missing and are not served; fetch them again with `allium get`", bad, good+bad)
	}
	if a.quiet || a.json {
		return nil
	}
	return a.print(nil, fmt.Sprintf("%d objects, %s: every byte proved", good, node.HumanSize(bytes)))
}
