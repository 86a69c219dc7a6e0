// Package oap is a fixture.
package oap
