package model_test

import (
	"testing"

	"allium/internal/testkit/promela"
)

// shapes are the sizes that the model is checked in. A guard is gone when one of them shows it.
var shapes = map[string][]string{
	"trim.pml": {
		"-DHOLDERS=3 -DTRIES=2 -DLOSSES=1 -DOWNER", "-DHOLDERS=3", "-DHOLDERS=4 -DTRIES=3 -DWANT=2",
		"-DHOLDERS=4 -DTRIES=2 -DWANT=2 -DLOSSES=2",
	},
}

// TestModels: every property holds, and without any one of the guards some property fails.
func TestModels(t *testing.T) { promela.Check(t, shapes) }

// TestGuardMarks: a mark that the pattern misses would be a guard untested.
func TestGuardMarks(t *testing.T) { promela.CheckMarks(t, shapes) }

// TestNames: what the model says it stands for is in the code.
func TestNames(t *testing.T) { promela.CheckNames(t, shapes, []string{"Object"}, "../*.go") }
