package model_test

import (
	"testing"

	"go.uber.org/goleak"

	"allium/internal/testkit/promela"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shapes are the sizes that the model is checked in. A guard is gone when one of them shows it.
var shapes = map[string][]string{
	"pipeline.pml": {"-DCALLERS=3 -DPROBES=0", "-DCALLERS=2 -DPROBES=1", "-DCALLERS=1 -DPROBES=2 -DSTRAY"},
}

// TestModels: every property holds, and without any one of the guards some property fails.
func TestModels(t *testing.T) { promela.Check(t, shapes) }

// TestGuardMarks: a mark that the pattern misses would be a guard untested.
func TestGuardMarks(t *testing.T) { promela.CheckMarks(t, shapes) }

// TestNames: what the model says it stands for is in the code.
func TestNames(t *testing.T) {
	types := []string{"Service", "admission", "Table", "bucket", "driver", "rpcClient", "running"}
	promela.CheckNames(t, shapes, types, "../*.go", "../routing/*.go")
}
