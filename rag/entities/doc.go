// Package entities finds who, where and when in texts: people, places, organisations, dates and quantities.
//
//	texts → patterns (dates, quantities) and a token classifier, or rules for names without one → entities with values
//
// Input: texts with their languages. Output: Entity lists, in the order of the text, without overlap. English and
// German are known; texts in other languages are read as English.
package entities
