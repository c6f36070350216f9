//go:build !race

package e2e

// raceDetector says whether this test binary has it; karve is then built alike.
const raceDetector = false
