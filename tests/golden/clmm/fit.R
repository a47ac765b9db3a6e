# Cumulative mixed models by ordinal::clmm, for tests/golden/clmm/make.py.
#
#   Rscript fit.R export wine TABLE.csv              write ordinal's own data set
#   Rscript fit.R fit TABLE.csv FORMULA LINK OUT     write the estimates as JSON
#
# The response is an ordered factor; columns of numbers stay numbers, others are factors.

suppressMessages(library(ordinal))

number <- function(x) sprintf("%.17g", x)

pairs_of <- function(values) {
  paste(sprintf('    "%s": %s', names(values), number(values)), collapse = ",\n")
}

export <- function(name, path) {
  held <- new.env()
  data(list = name, package = "ordinal", envir = held)
  write.csv(held[[name]], path, row.names = FALSE, quote = TRUE)
}

fit <- function(path, formula, link, out) {
  formula <- as.formula(formula)
  table <- read.csv(path, stringsAsFactors = TRUE)
  table$judge <- factor(table$judge)
  response <- all.vars(formula)[1]
  table[[response]] <- factor(table[[response]], ordered = TRUE)
  made <- clmm(formula, data = table, link = link, nAGQ = 10)
  errors <- sqrt(diag(vcov(made)))
  writeLines(c(
    "{",
    sprintf('  "formula": "%s",', paste(deparse(formula, width.cutoff = 500L), collapse = " ")),
    sprintf('  "link": "%s",', link),
    sprintf('  "n": %d,', nrow(table)),
    '  "coefficients": {', pairs_of(made$beta), "  },",
    '  "errors": {', pairs_of(errors[names(made$beta)]), "  },",
    '  "thresholds": {', pairs_of(made$alpha), "  },",
    sprintf('  "judge_sd": %s,', number(made$ST$judge[1, 1])),
    sprintf('  "log_likelihood": %s,', number(as.numeric(logLik(made)))),
    sprintf('  "r": "%s.%s",', R.version$major, R.version$minor),
    sprintf('  "ordinal": "%s"', packageVersion("ordinal")),
    "}"
  ), out)
}

words <- commandArgs(trailingOnly = TRUE)
if (words[1] == "export") {
  export(words[2], words[3])
} else {
  fit(words[2], words[3], words[4], words[5])
}
