//go:build !race

package disruption_test

const race = false
