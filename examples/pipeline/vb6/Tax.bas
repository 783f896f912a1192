Attribute VB_Name = "Tax"
Option Explicit
' Rates of value added tax, and how money is rounded.

Public DefaultCountry As String

Public Function RateFor(ByVal Country As String) As Double
    Select Case UCase$(Country)
        Case "DE": RateFor = 0.19
        Case "FR": RateFor = 0.2
        Case "CH": RateFor = 0.081
        Case Else: RateFor = 0
    End Select
End Function

' Half a cent goes up, and not to the even one as Round() has it.
Public Function RoundMoney(ByVal Amount As Currency) As Currency
    RoundMoney = Int(Amount * 100 + 0.5) / 100
End Function
