// Package disruption makes moves come true: nodes go because they are empty, due, or
// not worth their price, in the order choose, look again, taint, look again past the
// cache, buy what takes their place, wait until that is ready, delete. The drain that
// follows is controller/termination's.
//
// It refuses to decide (see engine/disrupt) and to keep what a crash may not lose: a
// move under way is written on its claims (see kube.MoveMark), and whoever leads next
// goes on with it when everything that was bought is there, and takes it back otherwise.
// Which nodes and pools rest, after a failure or after a consolidation that the scheduler
// undid, is written on them too (see kube.RestsAnnotation). The zero Controller is not
// usable; fields without a word about their zero value are required.
package disruption
