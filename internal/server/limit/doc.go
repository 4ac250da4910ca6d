// Package limit bounds what one caller may cost: requests, refused tokens, guesses, open streams.
//
// Place: below the door of the server; it knows a clock, nothing of HTTP.
//
// Promise: every map here is bounded; a limit that was reached says after how long to come again.
//
// Enemies: clients that send too much, guess passwords, or come from many addresses.
package limit
