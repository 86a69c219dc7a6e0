package oap

import _ "allium/store" // forbidden
