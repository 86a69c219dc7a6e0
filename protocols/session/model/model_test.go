package model_test

import (
	"testing"

	"go.uber.org/goleak"

	"allium/internal/testkit/promela"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shapes are the sizes that each model is checked in. A guard is gone when one
// of them shows it.
var shapes = map[string][]string{
	"permits.pml": {
		"-DTAKERS=3 -DCAP=1 -DROUNDS=2",
		"-DTAKERS=3 -DCAP=2 -DROUNDS=2",
	},
	"pipeline.pml": {
		"-DOTHERS=1 -DREQUESTS=1 -DINGRESS=2 -DEGRESS=1",
		"-DOTHERS=0 -DREQUESTS=2 -DINGRESS=1 -DEGRESS=2",
	},
}

// TestModels: every property holds, and without any one of the guards some property fails.
func TestModels(t *testing.T) { promela.Check(t, shapes) }

// TestGuardMarks: a mark that the pattern misses would be a guard untested.
func TestGuardMarks(t *testing.T) { promela.CheckMarks(t, shapes) }

// TestNames: what the models say they stand for is in the code.
func TestNames(t *testing.T) {
	types := []string{"link", "Service", "task", "permits", "egress", "peerEntry", "outgoing"}
	promela.CheckNames(t, shapes, types, "../*.go")
}
