# REML by lme4, for tests/test_reml.py and tests/golden/reml/make.py.
#
#   Rscript fit.R export NAME TABLE.csv         write one of lme4's own data sets
#   Rscript fit.R fit TABLE.csv FORMULA OUT     write the estimates as JSON
#
# Every column of a table other than the response is a factor.

suppressMessages(library(lme4))

number <- function(x) sprintf("%.17g", x)

export <- function(name, path) {
  held <- new.env()
  data(list = name, package = "lme4", envir = held)
  write.csv(held[[name]], path, row.names = FALSE, quote = TRUE)
}

fit <- function(path, formula, out) {
  formula <- as.formula(formula)
  response <- all.vars(formula)[1]
  table <- read.csv(path, colClasses = "character", na.strings = character(0))
  for (name in setdiff(names(table), response)) table[[name]] <- factor(table[[name]])
  table[[response]] <- as.numeric(table[[response]])
  # Absolute tolerances are set to zero: at their defaults of 1e-8 they would stop
  # the search before the relative ones do.
  control <- lmerControl(
    optimizer = "nloptwrap", calc.derivs = FALSE, check.conv.singular = "ignore",
    optCtrl = list(
      ftol_rel = 1e-15, xtol_rel = 1e-12, ftol_abs = 0, xtol_abs = 0, maxeval = 100000L
    )
  )
  made <- lmer(formula, table, REML = TRUE, control = control)
  found <- as.data.frame(VarCorr(made))
  components <- sprintf('    "%s": %s', found$grp, number(found$vcov))
  writeLines(c(
    "{",
    sprintf('  "formula": "%s",', paste(deparse(formula, width.cutoff = 500L), collapse = " ")),
    sprintf('  "n": %d,', nrow(table)),
    sprintf('  "intercept": %s,', number(fixef(made)[[1]])),
    sprintf('  "reml_criterion": %s,', number(REMLcrit(made))),
    '  "variance": {',
    paste(components, collapse = ",\n"),
    "  },",
    sprintf('  "r": "%s.%s",', R.version$major, R.version$minor),
    sprintf('  "lme4": "%s"', packageVersion("lme4")),
    "}"
  ), out)
}

words <- commandArgs(trailingOnly = TRUE)
if (words[1] == "export") export(words[2], words[3]) else fit(words[2], words[3], words[4])
