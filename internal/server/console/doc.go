// Package console serves the pages for browsers.
//
// Place: under the mux of the server: it answers what no route of the API answers.
//
// Promise: a page runs only the scripts it came with and speaks only to its own server; a wrong path of the API is
// never hidden by a page.
//
// Enemies: pages of strangers; a binary that was built without its pages.
package console
