// Package speech has the two languages of the command line: which one to answer in, and help texts in both.
//
// Place: layer 5, below all commands. Promise: every help text is settled in one language before it is shown. Enemies:
// a text that exists in one language only.
package speech
