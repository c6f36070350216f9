// Package ratelimit keeps requests to Azure within its limits, so that none is ever
// refused for coming too often: Azure makes whoever is refused wait far longer
// than a request that was held back would have waited.
//
// Every limit of Azure's is a bucket of tokens, mirrored here. A request takes a
// token from each bucket it falls under; when one is empty the request waits its
// turn, the most urgent first. Answers of Azure only ever lower what the mirror
// believes: others may use the same limits.
//
// It refuses to hold a caller for long. Ticket says how long to stay away instead
// of waiting, and the pipeline policy answers a request that would wait for more
// than a few seconds as Azure would, with status 429 and a time to come back.
//
// The zero Buckets is not usable; see New.
package ratelimit
