package model_test

import (
	"testing"

	"allium/internal/testkit/promela"
)

// shapes are the sizes that each model is checked in. A guard is gone when one of them shows it.
var shapes = map[string][]string{
	"trim.pml": {
		"-DHOLDERS=3 -DTRIES=2 -DLOSSES=1 -DOWNER", "-DHOLDERS=3", "-DHOLDERS=4 -DTRIES=3 -DWANT=2",
		"-DHOLDERS=4 -DTRIES=2 -DWANT=2 -DLOSSES=2", "-DHOLDERS=3 -DTRIES=2 -DAGAIN",
	},
	"shards.pml": {
		"-DMEMBERS=3 -DPIECES=51 -DTRY=2", "-DMEMBERS=4 -DWANT=2 -DPIECES=1122 -DTRY=7", "-DPIECES=11223 -DTRY=14",
		"-DPIECES=91223 -DTRY=22", "-DPIECES=11223 -DTRY=6 -DLOSSES=1", "-DPIECES=11223 -DTRY=10 -DLOSSES=1",
		"-DMEMBERS=4 -DWANT=4 -DPIECES=1123 -DTRY=12 -DLOSSES=1", "-DPIECES=329 -DPLAN=3 -DLOSSES=1 -DTRY=24",
		"-DPIECES=4321 -DWANT=4 -DPLAN=3 -DPLANS=1 -DLOSSES=2 -DTRY=16",
		"-DPIECES=4321 -DWANT=4 -DPLAN=1 -DPLANS=3 -DLOSSES=2",
	},
	"removal.pml": {
		"-DAWAY=3 -DSENDS=1", "-DAWAY=2 -DAGAIN -DSENDS=1", "-DOTHER",
		"-DAGAIN -DLEAVER -DSENDS=0", "-DLIAR=1", "-DLIAR=2",
		"-DLIAR=3 -DSENDS=1",
	},
}

// TestModels: every property holds, and without any one of the guards some property fails.
func TestModels(t *testing.T) { promela.Check(t, shapes) }

// TestGuardMarks: a mark that the pattern misses would be a guard untested.
func TestGuardMarks(t *testing.T) { promela.CheckMarks(t, shapes) }

// TestNames: what the models say they stand for is in the code.
func TestNames(t *testing.T) {
	promela.CheckNames(t, shapes, []string{"Object", "learner", "sender"}, "../*.go", "../../upkeep/*.go")
}
