package check

import "strings"

// endings are the inflections of names, and the endings in which peoples, adjectives and countries differ.
var endings = strings.Fields("s es n en e er ern an ans ian ians ean eans ese i ic ist ists istic ism ish tish isch ische ischen ischer " +
	"isches ischem y a ia land lands and o ite ites")

// nameKeys returns the keys by which a name is compared: itself, and itself without an ending if three letters remain.
func nameKeys(key string) []string {
	keys := []string{key}
	if key == "" || key[0] >= '0' && key[0] <= '9' {
		return keys
	}
	for _, end := range endings {
		if stem, ok := strings.CutSuffix(key, end); ok && len(stem) >= 3 {
			keys = append(keys, stem)
		}
	}
	if country := countries[key]; country != "" && country != key {
		keys = append(keys, country)
	}
	return keys
}

// countries has the words whose forms differ in more than an ending, with the country that they mean.
var countries = func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(irregulars) {
		country, _, _ := strings.Cut(line, " ")
		for form := range strings.FieldsSeq(line) {
			all[form] = country
		}
	}
	return all
}()

// irregulars are countries in English, with words for them and their people in English and German.
const irregulars = `france french frenchman frenchmen frankreich franzosisch franzose franzosen
netherlands dutch dutchman holland niederlande niederlanden niederlandisch hollandisch
spain spanish spaniard spaniards spanien spanisch spanier
poland polish pole poles polen polnisch
denmark danish dane danes danemark danisch danen
wales welsh welshman walisisch
switzerland swiss schweiz schweizer schweizerisch
greece greek greeks griechenland griechisch griechen
turkey turkish turk turks turkei turkisch turken
britain british briton britons uk britisch grossbritannien
england english englishman englishmen englisch englander
ireland irish irishman irisch irland
germany german germans deutschland deutsch deutsche deutschen deutscher
italy italian italians italien italienisch italiener
russia russian russians russland russisch russen
austria austrian osterreich osterreichisch osterreicher
norway norwegian norwegians norwegen norwegisch
sweden swedish swede swedes schweden schwedisch
finland finnish finn finns finnisch finnland
china chinese chinesisch chinesen
us usa america american americans amerika amerikanisch amerikaner
portugal portuguese portugiesisch portugiesen
czechia czech czechs tschechien tschechisch
scotland scottish scots scot schottland schottisch schotten
europe european europa europaisch
egypt egyptian agypten agyptisch
peru peruvian
flanders flemish
argentina argentine argentinian
`
